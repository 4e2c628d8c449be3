"""Ends a command after SIGINT or SIGTERM even while a library blocks the main thread: another thread receives the signals."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ENDS_WITHIN_S: Final = 120.0
"""# limit: what a command has to clear up after an interrupt takes less, a JVM that is just starting on a busy machine included, unless a store does not answer."""

_HEARD: Final = frozenset({signal.SIGINT, signal.SIGTERM})


@contextmanager
def interruptible(within_s: float = ENDS_WITHIN_S) -> Iterator[None]:
    """Ends the process with one line if it has not left this context `within_s` seconds after a signal. Main thread only."""
    ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(ours, True)
    left = threading.Event()
    thread = threading.Thread(target=_listen, args=(ours, left, within_s), name="interrupts", daemon=True)
    thread.start()
    before = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(before)
        os.close(theirs)
        thread.join()
        os.close(ours)


def _listen(pipe: int, left: threading.Event, within_s: float) -> None:
    while numbers := os.read(pipe, 64):
        for number in numbers:
            if number in _HEARD and not left.wait(within_s):
                sys.stderr.write(
                    f"headrace: interrupted, but still waiting for a response after {within_s:.0f} s; exiting. The next run continues from here.\n"
                )
                sys.stderr.flush()
                os._exit(128 + number)
