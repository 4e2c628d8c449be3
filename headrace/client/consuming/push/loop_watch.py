"""LoopWatch: says which coroutine handler holds up the event loop, with its stack.

A coroutine must not block: as long as it does, no heartbeat leaves, no lock is refreshed, and in the end brokers give the consumer's queues to others. A
thread asks the loop twice a second for a sign of life; if there is none for a second, the loop's stack says who is at fault. It is said once for each
time that the loop is held.
"""

import asyncio
import functools
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, Final

logger = logging.getLogger(__name__)

HELD_S: Final = 1.0
"""For so long the loop may be held without a word."""
_PERIOD_S: Final = 0.5
_STACK_LINES: Final = 12


class LoopWatch:
    """Watches the running loop until it is closed. `handlers`: the functions that are to be named, as of now."""

    def __init__(self, handlers: Callable[[], Iterable[Any]], name: str, held_s: float = HELD_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._handlers = handlers
        self._held_s = held_s
        self._is_closed = threading.Event()
        self._alive = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"{name}-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, and waits for that: it never waits for anything itself."""
        self._is_closed.set()
        self._alive.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_closed.wait(_PERIOD_S):
            self._alive.clear()
            if self._is_closed.is_set():
                return
            asked = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(self._alive.set)
            except RuntimeError:  # the loop was closed under us
                return
            if not self._alive.wait(self._held_s):
                self._say()
                self._alive.wait()
                if not self._is_closed.is_set():
                    logger.warning("the event loop goes on after %.1f s", time.monotonic() - asked)

    def _say(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 (there is no other way to it)
        if frame is None:
            return
        logger.warning(
            "the event loop is held, no heartbeat can leave: a coroutine must not block; a plain function may handler=%s held_s=%g at:\n%s",
            self._name_in(frame),
            self._held_s,
            "".join(traceback.format_stack(frame)[-_STACK_LINES:]).rstrip(),
        )

    def _name_in(self, frame: FrameType | None) -> str:
        names = {
            code: name
            for function in self._handlers()
            if (code := _code_of(function))
            for name in (_name_of(function),)
        }
        while frame is not None:
            if frame.f_code in names:
                return names[frame.f_code]
            frame = frame.f_back
        return "none of this consumer's"


def _code_of(function: Any) -> CodeType | None:
    """The code of a function, a method, a partial, an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", None) or type(function).__qualname__
