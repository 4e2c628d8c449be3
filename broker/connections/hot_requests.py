# cython: wraparound=False

"""HotRequests: the hot path of a client's connection. The frames of one read become one batch in the log and one write.

Sends of the common form go through `SendPath` in bulk, pulls through `PullPath`; every other frame is handled as a command. The batches of all
reads in one turn of the event loop are published and answered together (`HotRound`). Without a compiler all frames are
handled as commands, which is faster than the interpreted hot path; so are all frames of a connection whose admission checks sends and pulls.
Called for every read, so this is a hot module (types in the `.pxd`).
"""

import cython

from broker.appending.appender import Appender
from broker.connections.hot_round import HotRound
from broker.pulling.hot_pull import PullPath
from broker.sending.hot_send import COMPILED, PARTIAL, SendPath
from headrace.errors import BadFrame
from headrace.model.host import V4_SIZE, encode_host
from headrace.model.sys_flag import BORN_HOST_V6
from headrace.protocol.frame import frame_size
from headrace.protocol.remoting_command import RemotingCommand
from headrace.remoting.admission import OPEN, Admission
from headrace.remoting.connection import Connection
from ipc.current_client import CurrentClient, encode_client

if not cython.compiled:
    from time import monotonic_ns, time_ns

_PARTIAL = PARTIAL


class HotRequests:
    """The `HotPath` of one connection. It uses only public members of the connection and its channel."""

    def __init__(
        self,
        connection: Connection,
        path: SendPath,
        pulls: PullPath | None,
        appender: Appender,
        hot_round: HotRound,
        mark: CurrentClient,
    ) -> None:
        """`pulls` is None on a port that does not serve them."""
        self._connection = connection
        self._channel = connection.channel
        self._path = path
        self._pulls = pulls if COMPILED else None
        self._log, self._gets = appender.log, appender.stats.gets
        self._round = hot_round
        self._mark = mark
        self._client = encode_client("")
        self._born_host = b""
        self._born_flag = 0
        self._admission, self._must_check, self._access = OPEN, False, OPEN.signatures
        self._is_cut = False
        self._began_ns = self._puts_before = self._gets_before = 0

    def opened(self) -> None:
        """The peer is connected: its address becomes the born host of its messages."""
        self._client = encode_client(self._channel.remote)
        self._born_host = encode_host(self._channel.remote_address)
        self._born_flag = BORN_HOST_V6 if len(self._born_host) > V4_SIZE else 0

    def lost(self, reason: str) -> None:
        """Nothing is kept for a lost connection."""

    def take_answer(self, command: RemotingCommand) -> bool:  # noqa: ARG002
        """The hot path asks nothing."""
        return False

    def begin_batch(self) -> None:
        """From here on this client's requests are handled."""
        self._mark.begin(self._client)
        self._began_ns, self._puts_before = monotonic_ns(), self._path.requests_in
        if self._pulls is not None:
            self._gets_before = self._pulls.pulls_answered

    def take(self, data: bytes, position: int) -> int:
        """Handles sends in bulk, pulls on the hot path, and everything else frame by frame."""
        connection = self._connection
        if not COMPILED:
            return connection.take_frames(data, position)
        channel, path, pulls, end = self._channel, self._path, self._pulls, len(data)
        self._log.begin(time_ns() // 1_000_000)
        while channel.close_reason is None:
            if not channel.takes_frames():
                return position
            if connection.admission is not self._admission:
                self._take_admission(connection.admission)
            if self._must_check or (channel.usage.requests and connection.is_over_limit):
                return connection.take_frames(data, position)
            access = self._access
            position = path.take(data, position, self._born_host, self._born_flag, access)
            if path.stopped_at == _PARTIAL:
                return position
            stop = position + self._frame_size(data, position)
            if stop > end or channel.frame_must_wait():
                return position
            answer = pulls.answer(data, position, access) if pulls is not None else None
            if answer is not None:
                channel.write(answer)
            else:
                # Also where no file is reserved yet: the plain path waits for it.
                connection.handle_frame(data[position:stop])
            position = stop
        return end

    def _take_admission(self, admission: Admission) -> None:
        """Looks at another admission once, instead of for every read."""
        self._admission = admission
        self._must_check = admission.check is not None and admission.checks_hot_requests
        self._access = admission.signatures

    def _frame_size(self, data: bytes, position: int) -> int:
        try:
            return frame_size(data, position)
        except BadFrame:
            # The connection is closed at the end of this read: what was appended before is answered now.
            self._is_cut = True
            raise

    def end_batch(self) -> None:
        """Leaves what was appended to the end of the loop's turn, which publishes and answers it."""
        path, pulls = self._path, self._pulls
        puts = path.requests_in - self._puts_before
        if puts:
            self._round.add(
                self._connection, self._channel, self._began_ns, puts, path.take_answers(), path.take_held()
            )
            if self._is_cut:
                self._round.end()
        if pulls is not None and pulls.pulls_answered != self._gets_before:
            self._gets.add_until(monotonic_ns(), self._began_ns, pulls.pulls_answered - self._gets_before)
        self._mark.end()
