"""A client's connection to the broker: what one read brings becomes one batch in the log and one write.

Sends of the common form go through `SendPath` in bulk; every other frame is handed to the plain path of the remoting layer
and answered from its handlers. Answers leave after the batch is published, those that wait for disk or slave when the ack
gate lets them. Without a compiler all frames take the plain path, which is quicker than the interpreted hot one.
"""

import asyncio
from functools import partial
from time import monotonic_ns

from broker.appending.appender import Appender
from broker.pulling.hot_pull import PullPath
from broker.response_codes import code_of_put
from broker.sending.hot_send import COMPILED, PARTIAL, SendPath
from headrace.model.host import encode_host
from headrace.protocol.frame import FrameDecoder, frame_size
from headrace.remoting.connection import Connection
from headrace.remoting.endpoint import Endpoint
from ipc.client_mark import ClientMark, encode_client
from store.status import PutMessageStatus

_BORN_HOST_V6 = 0x10
_V4_HOST_LENGTH = 8


class BrokerConnection(Connection):
    """A connection whose sends are appended in bulk."""

    __slots__ = (
        "_appender",
        "_began_ns",
        "_born_flag",
        "_born_host",
        "_client",
        "_gets_before",
        "_mark",
        "_path",
        "_pulls",
        "_puts_before",
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
        self._began_ns = self._puts_before = self._gets_before = 0

    def _open(self, transport: asyncio.Transport) -> None:
        super()._open(transport)
        if not self.is_closed:
            self._client = encode_client(self.remote)
            self._born_host = encode_host(self.remote_address)
            self._born_flag = _BORN_HOST_V6 if len(self._born_host) > _V4_HOST_LENGTH else 0

    def take_frames(self, data: bytes, position: int) -> int:
        """Sends in bulk, pulls by the short way, everything else frame by frame."""
        if not COMPILED:
            return super().take_frames(data, position)
        path, pulls, end = self._path, self._pulls, len(data)
        self._appender.log.begin()
        while not self.is_closed:
            if self.is_held:
                return position
            if self.admission.check is not None:
                return super().take_frames(data, position)
            position = path.take(data, position, self._born_host, self._born_flag)
            if path.stopped_at == PARTIAL:
                return position
            stop = position + frame_size(data, position)
            if stop > end or self._must_wait():
                return position
            answer = pulls.answer(data, position) if pulls is not None else None
            if answer is not None:
                self.write(answer)
            else:
                # Also where no file is reserved yet: the plain path waits for it.
                self.handle_frame(data[position:stop])
            position = stop
        return end

    def begin_batch(self) -> None:
        """From here on this client's requests are handled."""
        self._mark.begin(self._client)
        self._began_ns, self._puts_before = monotonic_ns(), self._path.requests_in
        if self._pulls is not None:
            self._gets_before = self._pulls.pulls_answered
        super().begin_batch()

    def end_batch(self) -> None:
        """Makes its messages visible, and writes all answers that were gathered."""
        began_ns, pulls = self._began_ns, self._pulls
        self._appender.publish()
        self._answer_batch(began_ns, self._path.requests_in - self._puts_before)
        if pulls is not None and pulls.pulls_answered != self._gets_before:
            self._appender.stats.gets.add(began_ns, pulls.pulls_answered - self._gets_before)
        super().end_batch()
        self._mark.end()

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
