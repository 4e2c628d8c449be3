"""How a row with a generation is read whole: it is odd while the row is written, and even again afterwards.

A writer is in its row for less than a microsecond, but the scheduler may put it aside there for some milliseconds, and a kill
for ever. So a reader tries again at once, then in short naps, and when one odd generation has stood still for all its
patience, takes the words as they are: each is whole. It remembers that, and does not wait for that dead writer a second time.
The next writer makes the generation even.
"""

import time
from collections.abc import Callable
from typing import TypeVar

_Value = TypeVar("_Value")

_TRIES = 100  # limit: tens of microseconds, longer than a writer needs that has a processor
_NAP_S = 0.0001
PATIENCE_S = 0.2  # limit: longer than a live writer is put aside on a busy machine


class Seqlock:
    """The reader's side of all rows of a segment."""

    def __init__(self, words: memoryview) -> None:
        self._words = words
        self._dead: dict[int, int] = {}

    def read(self, generation_word: int, read: Callable[[], _Value]) -> _Value:
        """What `read` makes of a row, from one moment; of a row whose writer was killed in it, as it lies there."""
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
