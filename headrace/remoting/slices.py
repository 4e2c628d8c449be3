"""Divides long work on the event loop into slices, so that other work is not delayed."""

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_S: Final = 0.01
"""Length of a slice, after which the loop does other work."""


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
