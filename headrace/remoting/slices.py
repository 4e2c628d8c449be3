"""Long work on the event loop, cut into slices, so that nobody else waits for it."""

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_S: Final = 0.01
"""How long a slice lasts before others have their turn."""


async def in_slices(steps: Generator[None, None, T]) -> T:
    """Runs the steps of a generator, each of which is short, and returns its result. Raises what it raises."""
    end = time.monotonic() + SLICE_S
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        if time.monotonic() >= end:
            await asyncio.sleep(0)
            end = time.monotonic() + SLICE_S
