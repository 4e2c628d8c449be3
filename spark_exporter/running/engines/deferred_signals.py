"""Delays SIGINT and SIGTERM until an operation that must not be interrupted is complete."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_DEFERRED: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Delivers SIGINT and SIGTERM when the block ends. Use it for a few seconds at most: somebody who has pressed Ctrl-C is waiting.

    Only the main thread is interrupted by signals; in other threads it has no effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def hold(number: int, _frame: Any) -> None:
        came.append(number)

    before = {each: signal.signal(each, hold) for each in _DEFERRED}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)
