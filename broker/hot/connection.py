"""A client's connection to the broker: what one read brings becomes one batch in the log and one write.

Sends of the common form go through `SendPath` in bulk; every other frame is handed to the plain path of the remoting layer
and answered from its handlers. Answers leave after the batch is published, those that wait for disk or slave when the ack
gate lets them. Without a compiler all frames take the plain path, which is quicker than the interpreted hot one.
"""

from functools import partial
from time import monotonic_ns

from broker.appender import Appender
from broker.hot.pull import PullPath
from broker.hot.send import COMPILED, PARTIAL, SendPath
from broker.response_codes import code_of_put
from headrace.errors import BadFrame
from headrace.model.host import encode_host
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.frame_layout import FRAME_MAX_LENGTH
from headrace.remoting.connection import Connection
from headrace.remoting.endpoint import Endpoint
from ipc.client_mark import ClientMark, encode_client
from store.status import PutMessageStatus

_BORN_HOST_V6 = 0x10
_V4_HOST_LENGTH = 8
_SHORTEST_FRAME = 4


class BrokerConnection(Connection):
    """A connection whose sends are appended in bulk."""

    __slots__ = (
        "_appender",
        "_born_flag",
        "_born_host",
        "_client",
        "_have",
        "_mark",
        "_needed",
        "_parts",
        "_path",
        "_pulls",
        "_seen",
    )

    def __init__(
        self, endpoint: Endpoint, path: SendPath, pulls: PullPath | None, appender: Appender, mark: ClientMark
    ) -> None:
        """`pulls` is None on a port that does not serve them."""
        super().__init__(endpoint)
        self._path = path
        self._pulls = pulls if COMPILED else None
        self._appender = appender
        self._mark = mark
        self._client = encode_client("")
        self._born_host = b""
        self._born_flag = 0
        self._parts: list[bytes] = []
        self._have = 0
        self._needed = 0
        self._seen = False

    def data_received(self, data: bytes) -> None:
        """Takes the whole frames in the bytes; keeps the rest for the next read."""
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._needed:
                self.touch()
                return
            data = b"".join(self._parts)
            self._parts.clear()
        elif not self._seen:
            if self.begins_tls(data):
                return
            self._begin()
        self.touch()
        self.begin_batch()
        path, pulls, stats = self._path, self._pulls, self._appender.stats
        began_ns, put_before, got_before = monotonic_ns(), path.requests_in, pulls.pulls_answered if pulls else 0
        position = self._take(data)
        self._appender.publish()
        self._answer_batch(began_ns, path.requests_in - put_before)
        if pulls is not None and pulls.pulls_answered != got_before:
            stats.gets.add(began_ns, pulls.pulls_answered - got_before)
        self.end_batch()
        if position < len(data) and not self.is_closed:
            self._keep(data, position)

    def begin_batch(self) -> None:
        """From here on this client's requests are handled."""
        self._mark.begin(self._client)
        super().begin_batch()

    def end_batch(self) -> None:
        """Its requests are handled, and answered with one write."""
        super().end_batch()
        self._mark.end()

    def _begin(self) -> None:
        self._seen = True
        self._client = encode_client(self.remote)
        self._born_host = encode_host(self.remote_address)
        self._born_flag = _BORN_HOST_V6 if len(self._born_host) > _V4_HOST_LENGTH else 0

    def _take(self, data: bytes, position: int = 0) -> int:
        """Handles whole frames; returns where the first incomplete one begins."""
        path = self._path
        self._appender.log.begin()
        while True:
            if COMPILED:
                position = path.take(data, position, self._born_host, self._born_flag)
                if path.stopped_at == PARTIAL:
                    return position
            elif len(data) - position < _SHORTEST_FRAME:
                return position
            length = int.from_bytes(data[position : position + 4], "big", signed=True)
            if not _SHORTEST_FRAME <= length <= FRAME_MAX_LENGTH - 4:
                self.refuse_bytes(BadFrame(f"a frame's length is {length}, the most is {FRAME_MAX_LENGTH - 4}"))
                return len(data)
            end = position + 4 + length
            if end > len(data):
                return position
            answer = self._pulls.answer(data, position) if self._pulls is not None else None
            if answer is not None:
                self.write(answer)
            else:
                # Also where no file is reserved yet: the plain path waits for it.
                self.handle_frame(data[position:end])
            if self.is_closed:
                return len(data)
            position = end

    def _keep(self, data: bytes, position: int) -> None:
        """Keeps the beginning of a frame; how much of it is missing is known from its first four bytes."""
        rest = data[position:]
        self._parts.append(rest)
        self._have = len(rest)
        if len(rest) < _SHORTEST_FRAME:
            self._needed = _SHORTEST_FRAME
            return
        length = int.from_bytes(rest[:4], "big", signed=True)
        if not _SHORTEST_FRAME <= length <= FRAME_MAX_LENGTH - 4:
            self._parts.clear()
            self.refuse_bytes(BadFrame(f"a frame's length is {length}, the most is {FRAME_MAX_LENGTH - 4}"))
            return
        self._needed = 4 + length

    def _answer_batch(self, began_ns: int, puts: int) -> None:
        """Answers `puts` sends that were taken in bulk since `began_ns`."""
        answers = self._path.take_answers()
        if answers:
            self.write(answers)
        held = self._path.take_held()
        if held:
            self._appender.gate.wait(self._appender.log.wrote_offset, partial(self._answer_held, held, began_ns, puts))
        elif puts:
            self._appender.stats.puts.add(began_ns, puts)

    def _answer_held(self, answers: bytes, began_ns: int, puts: int, status: PutMessageStatus) -> None:
        self._appender.stats.puts.add(began_ns, puts)
        if status is not PutMessageStatus.PUT_OK:
            answers = b"".join(_recoded(answers, status))
        self.write(answers)


def _recoded(answers: bytes, status: PutMessageStatus) -> list[bytes]:
    """The same answers with the response code of `status`."""
    commands = FrameDecoder().feed(answers)
    for command in commands:
        command.code = code_of_put(status)
    return [command.encode() for command in commands]
