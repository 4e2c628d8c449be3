"""How long an event loop was held by one thing: the CPU time of its longest step.

CPU time and not the clock's, so that a busy machine says nothing. The garbage collector rests meanwhile: what a pass of it takes depends on all that
the test process has made before.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Steps:
    """`longest_ms`: what the longest step took, in ms of CPU time."""

    def __init__(self) -> None:
        self.longest_ms = 0.0


@contextmanager
def watched_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Watches all steps of asyncio's own loops until it is left."""
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
