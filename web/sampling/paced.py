"""Paced: a value that is fetched again only so often that fetching takes at most a twentieth of the time."""

import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_REST: Final = 20  # limit: fetching takes at most 5 % of the time, however large a cluster is


class Paced(Generic[T]):
    """The latest value and when to fetch the next. A failed fetch keeps nothing, so that old figures never look current."""

    def __init__(self, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._value: T | None = None
        self._due_s = -1.0

    async def get(self, fetch: Callable[[], Awaitable[T]]) -> T:
        """The value, fetched if it is due. Raises as `fetch`."""
        began_s = self._clock()
        if self._value is None or began_s >= self._due_s:
            self._value = None
            self._value = await fetch()
            self._due_s = began_s + max(self._every_s, _REST * (self._clock() - began_s))
        return self._value
