"""InFlight: limits how many messages, and how many bytes of them, a producer has in flight at once. Further sends wait, first come, first served.

A message in flight occupies buffers of the socket, the client and the broker; a message that waits occupies only the caller's memory.
"""

import asyncio
from collections import deque
from typing import Final

NO_LIMIT: Final = 1 << 62


class InFlight:
    """Each `enter`, and each successful `try_enter`, is followed by one `leave` with the same size. For use in one event loop."""

    __slots__ = ("_bytes", "_max_bytes", "_max_messages", "_messages", "_waiting")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._messages = 0
        self._bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    def try_enter(self, size: int) -> bool:
        """Admits a message of `size` bytes if it fits; returns whether it did."""
        if self._waiting or not self._fits(size):
            return False
        self._messages += 1
        self._bytes += size
        return True

    async def enter(self, size: int) -> None:
        """Waits until a message of `size` bytes fits, and admits it."""
        if self.try_enter(size):
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((admitted, size))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.leave(size)
            raise

    def leave(self, size: int) -> None:
        """Releases the room of a message that was stored or has failed."""
        self._messages -= 1
        self._bytes -= size
        waiting = self._waiting
        while waiting:
            admitted, needed = waiting[0]
            if not admitted.done():
                if not self._fits(needed):
                    return
                self._messages += 1
                self._bytes += needed
                admitted.set_result(None)
            waiting.popleft()

    def _fits(self, size: int) -> bool:
        # A message larger than the limit is sent alone.
        return not self._messages or (self._messages < self._max_messages and self._bytes + size <= self._max_bytes)
