"""Closes idle connections: one sweep over all of them instead of a timer each.

RocketMQ closes a connection on which neither a read nor a write has happened for 120 s, on both sides (remoting spec 1.7).
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Protocol

SWEEPS_PER_TIMEOUT: Final = 12  # limit: a connection of 120 s is closed at most 10 s late


class _Idler(Protocol):
    @property
    def idle_s(self) -> float: ...

    def abort(self, reason: str, level: int) -> None: ...


class IdleSweep:
    """Checks all connections every twelfth of the time-out and closes the idle ones."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: Collection[_Idler], timeout_s: float) -> None:
        self._loop = loop
        self._connections = connections
        self._timeout_s = timeout_s
        self._timer = loop.call_later(timeout_s / SWEEPS_PER_TIMEOUT, self._pass)

    def _pass(self) -> None:
        self._timer = self._loop.call_later(self._timeout_s / SWEEPS_PER_TIMEOUT, self._pass)
        for connection in [each for each in self._connections if each.idle_s >= self._timeout_s]:
            connection.abort(f"idle for {self._timeout_s:g} s", logging.INFO)

    def close(self) -> None:
        """Stops the sweeps."""
        self._timer.cancel()
