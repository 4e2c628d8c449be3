"""LoopWatch: logs which coroutine handler blocks the event loop, with its stack.

A coroutine must not block: while it does, no heartbeat is sent and no lock is refreshed, and finally brokers assign the consumer's queues to others. A
thread checks twice a second that the loop runs. If it has been blocked for a second, the thread logs the loop's stack and the handler in it, once for
each time.
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
"""How long the loop may be blocked without a log line."""
_PERIOD_S: Final = 0.5
_STACK_LINES: Final = 12


class LoopWatch:
    """Watches the running loop until it is closed. `handlers` returns the current handlers, to name the one at fault."""

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
        """Ends the thread and waits for that; the thread itself never blocks."""
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
            except RuntimeError:  # the loop was closed meanwhile
                return
            if not self._alive.wait(self._held_s):
                self._say()
                self._alive.wait()
                if not self._is_closed.is_set():
                    logger.warning("event loop resumed blocked_s=%.1f", time.monotonic() - asked)

    def _say(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 (there is no public way to get it)
        if frame is None:
            return
        logger.warning(
            "event loop blocked, no heartbeat can be sent handler=%s blocked_s=%g "
            "advice='make handlers that block plain functions, not coroutines' stack=\n%s",
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
    """Returns the code of a function, a method, a partial, or an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", None) or type(function).__qualname__
