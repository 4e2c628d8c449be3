"""A consumer without a client library: one blocking socket, one request at a time, raw answers."""

import socket
from types import TracebackType
from typing import Self

from headrace.model import pull_sys_flag
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.headers import PullMessageRequestHeader
from headrace.protocol.record import decode_records
from headrace.protocol.remoting_command import RemotingCommand, create_request

PATIENCE_S = 60


class PlainPuller:
    """Pulls from one broker with its own expressions."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._decoder = FrameDecoder()

    def ask(self, request: RemotingCommand) -> RemotingCommand:
        """Sends a request and returns the response."""
        self._socket.sendall(request.encode())
        while True:
            data = self._socket.recv(1 << 20)
            assert data, "the broker closed the connection"
            for answer in self._decoder.feed(data):
                return answer

    def pull(
        self,
        topic: str,
        expression: str = "*",
        expression_type: str = "TAG",
        *,
        queue_id: int = 0,
        offset: int = 0,
        hold_ms: int = 0,
        count: int = 32,
    ) -> RemotingCommand:
        """Pulls and returns the response; waits up to `hold_ms` for messages."""
        header = PullMessageRequestHeader(
            consumer_group="plain", topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=count,
            sys_flag=pull_sys_flag.SUBSCRIPTION | (pull_sys_flag.SUSPEND if hold_ms else 0), commit_offset=0,
            suspend_timeout_millis=hold_ms, subscription=expression, sub_version=0, expression_type=expression_type,
        )  # fmt: skip
        return self.ask(create_request(header.CODE, header.to_ext()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._socket.close()


def bodies(answer: RemotingCommand) -> list[bytes]:
    """The bodies of the messages in a response to a pull."""
    return [message.body for message in decode_records(answer.body)]
