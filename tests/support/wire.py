"""A transport for tests of channels, without a network."""

import asyncio
import socket
from typing import Any

import pytest

from headrace.remoting import turns


class Wire(asyncio.Transport):
    """Keeps what is written, each write by itself; a test sets how many bytes are `unsent`."""

    def __init__(self, address: str = "10.1.2.3", connected: socket.socket | None = None) -> None:
        """`connected`: the socket that a channel may send to itself."""
        super().__init__({"peername": (address, 40000), "socket": connected})
        self.writes: list[bytes] = []
        self.is_reading_paused = self.closing = False
        self.unsent = 0

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent


def stop_clock_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns of clients take no time until the end of the test: what a channel receives is handled at once, however busy the machine is."""
    monkeypatch.setattr(turns, "monotonic_ns", lambda: 1 << 60)
