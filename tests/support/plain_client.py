"""A client without a library: one blocking socket, raw requests, and the broker's frames in order."""

import socket
import time
from types import TracebackType
from typing import Any, Self

from headrace.protocol import fastjson
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import ONEWAY_FLAG, RemotingCommand, SerializeType, create_request
from headrace.protocol.request_code import RequestCode

PATIENCE_S = 30.0


class PlainClient:
    """Connects to one address, `host:port`, from the address `source` of this host if it is given."""

    def __init__(self, address: str, source: str | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S, source and (source, 0))
        self._decoder = FrameDecoder()
        self.serialize_type = SerializeType.JSON
        """How headers of requests are encoded."""
        self.told: list[RemotingCommand] = []
        """What the broker has asked of this client, unanswered."""

    def ask(
        self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", deadline_s: float = PATIENCE_S
    ) -> RemotingCommand:
        """Sends a request and returns the response. AssertionError if there is none by the deadline."""
        request = self._send(code, ext, body, 0)
        end = time.monotonic() + deadline_s
        while True:
            for command in self._receive(end, f"an answer to {code}"):
                if command.is_response and command.opaque == request.opaque:
                    return command
                self.told.append(command)

    def tell(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"") -> None:
        """Sends a one-way request."""
        self._send(code, ext, body, ONEWAY_FLAG)

    def await_told(self, code: int, deadline_s: float = PATIENCE_S) -> RemotingCommand:
        """Waits for this request from the broker. AssertionError if it has not arrived by the deadline."""
        end = time.monotonic() + deadline_s
        while True:
            for command in self.told:
                if command.code == code:
                    self.told.remove(command)
                    return command
            self.told += self._receive(end, f"a request {code}")

    # -- requests of the common kinds --------------------------------------------------------------------------------------

    def send(
        self, topic: str, body: bytes = b"x", queue_id: int = 0, properties: str = "", **letters: Any
    ) -> RemotingCommand:
        """SEND_MESSAGE_V2."""
        ext = {
            "a": "plain", "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": 0, "g": int(time.time() * 1000), "h": 0,
            "i": properties, "j": 0, "k": "false", "m": "false",
        }  # fmt: skip
        return self.ask(RequestCode.SEND_MESSAGE_V2, ext | letters, body)

    def pull(
        self, topic: str, offset: int = 0, group: str = "pullers", deadline_s: float = PATIENCE_S, **fields: Any
    ) -> RemotingCommand:
        """PULL_MESSAGE of 32 messages from queue 0, of any tags, which is not held."""
        ext = {
            "consumerGroup": group, "topic": topic, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4,
            "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
        }  # fmt: skip
        return self.ask(RequestCode.PULL_MESSAGE, ext | fields, deadline_s=deadline_s)

    def runtime(self) -> dict[str, str]:
        """The figures shown by `brokerStatus`."""
        table: dict[str, str] = fastjson.loads(self.ask(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
        return table

    # -- bytes ------------------------------------------------------------------------------------------------------------

    def _send(self, code: int, ext: dict[str, Any] | None, body: bytes, flag: int) -> RemotingCommand:
        fields = None if ext is None else {key: str(value) for key, value in ext.items()}
        request = create_request(RequestCode(code), fields, body, serialize_type=self.serialize_type)
        request.flag |= flag
        self._socket.sendall(request.encode())
        return request

    def _receive(self, end: float, what: str) -> list[RemotingCommand]:
        self._socket.settimeout(max(end - time.monotonic(), 0.001))
        try:
            data = self._socket.recv(1 << 20)
        except TimeoutError:
            raise AssertionError(f"{what} is late") from None
        assert data, f"the connection was closed while waiting for {what}"
        return list(self._decoder.feed(data))

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
