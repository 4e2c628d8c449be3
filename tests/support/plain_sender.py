"""A producer without a client library: blocking sockets, one message at a time or many in flight, acknowledgements.

It retries like a client: after a lost connection, a refusal or silence the message is sent again under the same number.
"""

import contextlib
import socket
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from headrace.protocol.frame import FrameDecoder
from headrace.protocol.headers.send import SendMessageRequestHeaderV2
from headrace.protocol.remoting_command import RemotingCommand, create_request

OK = (0, 10, 12)  # success; or stored, but not flushed or replicated in time


@dataclass
class PlainSender:
    """Sends numbered messages to one broker. `acknowledged` has the number of each acknowledged one, in order."""

    port: int
    topic: str = "PlainTopic"
    acknowledged: list[int] = field(default_factory=list)
    attempts: int = 0
    _socket: socket.socket | None = None
    _decoder: FrameDecoder = field(default_factory=FrameDecoder)

    def send(self, number: int, size_bytes: int = 100, *, deadline_s: float = 60.0) -> None:
        """Sends one message until it is acknowledged; AssertionError if that takes too long."""
        end = time.monotonic() + deadline_s
        while True:
            assert time.monotonic() < end, f"message {number} not acknowledged within {deadline_s:g} s"
            with contextlib.suppress(OSError):
                answer = self._try_once(number, size_bytes)
                if answer.code in OK:
                    self.acknowledged.append(number)
                    return
            self._hang_up()
            time.sleep(0.02)

    def _try_once(self, number: int, size_bytes: int) -> RemotingCommand:
        self.attempts += 1
        if self._socket is None:
            # A broker that dies closes the connection; a slow one is awaited.
            self._socket = socket.create_connection(("127.0.0.1", self.port), 30)
            self._decoder = FrameDecoder()
        request = self.request(number, size_bytes)
        self._socket.sendall(request.encode())
        while True:
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionResetError("closed by the broker")
            for answer in self._decoder.feed(data):
                if answer.opaque == request.opaque:
                    return answer

    def request(self, number: int, size_bytes: int) -> RemotingCommand:
        """A SEND_MESSAGE_V2 whose key and body contain its number."""
        header = SendMessageRequestHeaderV2(
            producer_group="plain",
            topic=self.topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=number % 4,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties=f"KEYS\x01{number}\x02WAIT\x01true",
        )
        body = f"{number} ".encode().ljust(size_bytes, b".")
        return create_request(header.CODE, header.to_ext(), body)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._hang_up()
