"""InFlight: how many messages, and how many bytes of them, a producer has under way at once. Who comes beyond that waits, first come, first served.

What is under way lies in the buffers of the socket, of this client and of the broker; what waits is only the caller's own message.
"""

import asyncio
from collections import deque
from typing import Final

NO_LIMIT: Final = 1 << 62


class InFlight:
    """Each `enter`, or `try_enter` that succeeded, is followed by one `leave` with the same size. Used in one event loop."""

    __slots__ = ("_bytes", "_max_bytes", "_max_messages", "_messages", "_waiting")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._messages = 0
        self._bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    def try_enter(self, size: int) -> bool:
        """Whether a message of `size` bytes may go now; then it counts."""
        if self._waiting or not self._fits(size):
            return False
        self._messages += 1
        self._bytes += size
        return True

    async def enter(self, size: int) -> None:
        """Waits until a message of `size` bytes may go; then it counts."""
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
        """The message is stored, or has failed."""
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
        # One that is larger than all that is allowed goes alone.
        return not self._messages or (self._messages < self._max_messages and self._bytes + size <= self._max_bytes)
