"""How long one step blocked an event loop, in CPU time.

CPU time instead of wall-clock time, so that a busy machine does not matter. The garbage collector is off meanwhile: the
time of a pass depends on everything that the test process did before.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Steps:
    """`longest_ms`: the CPU time of the longest step in ms."""

    def __init__(self) -> None:
        self.longest_ms = 0.0


@contextmanager
def watched_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Measures all steps of asyncio's loops while the context is active."""
    steps = Steps()
    run = asyncio.Handle._run

    def measured(self: asyncio.Handle) -> None:
        began = time.thread_time()
        run(self)
        steps.longest_ms = max(steps.longest_ms, (time.thread_time() - began) * 1000)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", measured)
        gc.disable()
        try:
            yield steps
        finally:
            gc.enable()
