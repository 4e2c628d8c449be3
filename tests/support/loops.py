"""Both event loops of the servers as a test parameter, and helpers to wait in them."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

Run = Callable[[Coroutine[Any, Any, T]], T]

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def run_on(loop: str, main: Awaitable[T], deadline_s: float = 100) -> T:
    """Runs `main` on a new loop of that kind; TimeoutError if it takes too long."""

    async def within() -> T:
        async with asyncio.timeout(deadline_s):
            return await main

    runner = asyncio.Runner(loop_factory=LOOPS[loop])
    try:
        result = runner.run(within())
    finally:
        left_open = _close(runner)
    assert not left_open, left_open
    return result


def _close(runner: asyncio.Runner) -> list[str]:
    """Closes the loop and reports what a test has left open on it."""
    # uvloop never returns from close when a warning about an open resource is raised as an exception.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runner.close()
    return [str(each.message) for each in caught]


async def until(condition: Callable[[], object], deadline_s: float = 60) -> None:
    """Waits, in the loop, until `condition()` is true."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - a condition has no event
            await asyncio.sleep(0.002)
