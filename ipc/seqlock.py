"""Reads a row with a generation consistently: the generation is odd while the row is written, and even otherwise.

A write takes less than a microsecond, but the writer may be preempted meanwhile for a few milliseconds, or killed.
So a reader retries at once, then with short pauses, and if one odd generation has not changed after all retries,
it uses the words as they are: each is complete. It remembers this, and does not wait for that dead writer again.
The next writer makes the generation even.
"""

import time
from collections.abc import Callable
from typing import TypeVar

_Value = TypeVar("_Value")

_TRIES = 100  # limit: tens of microseconds, longer than a running writer needs
_NAP_S = 0.0001
PATIENCE_S = 0.2  # limit: longer than a live writer is preempted on a busy machine


class Seqlock:
    """The reader's side of all rows of a segment."""

    def __init__(self, words: memoryview) -> None:
        self._words = words
        self._dead: dict[int, int] = {}

    def read(self, generation_word: int, read: Callable[[], _Value]) -> _Value:
        """The consistent result of `read` for a row; if the writer was killed while writing it, the words as they are."""
        words = self._words
        for _ in range(_TRIES):
            generation = words[generation_word]
            value = read()
            if words[generation_word] == generation and not generation & 1:
                return value
        stuck = None
        while True:
            generation = words[generation_word]
            value = read()
            if words[generation_word] == generation:
                if not generation & 1 or self._dead.get(generation_word) == generation:
                    return value
                if generation != stuck:
                    stuck = generation
                    patience_end = time.monotonic() + PATIENCE_S
                elif time.monotonic() > patience_end:
                    self._dead[generation_word] = generation
                    return value
            time.sleep(_NAP_S)
