"""Slots: limits the messages, and their bytes, that threads have passed to a producer with `…_nowait` and that are in flight (`max_in_flight`)."""

import threading

from headrace.errors import TooManyRequests


class Slots:
    """`acquire` and `release` may be called in any threads, with the same size in bytes."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._messages = 0
        self._bytes = 0
        self._released = threading.Condition()

    def acquire(self, size: int, *, wait: bool) -> None:
        """Counts a message of `size` bytes; `wait`s for room, or raises TooManyRequests."""
        with self._released:
            while self._messages and (self._messages >= self._max_messages or self._bytes + size > self._max_bytes):
                if not wait:
                    raise TooManyRequests(
                        f"{self._messages} messages of {self._bytes} bytes are in flight; raise max_in_flight or max_in_flight_bytes,"
                        " or send with wait=True from another thread"
                    )
                self._released.wait()
            self._messages += 1
            self._bytes += size

    def release(self, size: int) -> None:
        """Releases the room of a message that was answered or has failed."""
        with self._released:
            self._messages -= 1
            self._bytes -= size
            self._released.notify_all()
