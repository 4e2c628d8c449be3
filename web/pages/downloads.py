"""Downloads: how many downloads of a kind are in progress, and their limit."""

from collections.abc import Iterator
from contextlib import contextmanager

from web.errors import TooOften


class Downloads:
    """Downloads of one kind, at most `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one download while the context is entered. Raises TooOften if all are taken."""
        if self._running >= self._most:
            raise TooOften("{at_once} downloads are in progress", "Wait until one has finished.", at_once=self._most)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
