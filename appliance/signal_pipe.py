"""Signals as bytes in a pipe: a handler does nothing else, and the loop acts when it reads.

Nothing is logged, locked or allocated inside a signal handler.
"""

import os
import signal
from collections.abc import Iterable
from types import FrameType
from typing import Final

STOP_ROLE: Final = signal.SIGUSR1
"""What tells a role to stop: the supervisor sends it, or the kernel when the supervisor has died.

Not SIGTERM, which a service manager, a container or `timeout` sends to every process of a group: the order of stopping is the
supervisor's, so roles ignore it.
"""


class SignalPipe:
    """Of the supervisor: the numbers of the signals that came, in order, through `fd`."""

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        """Take over these signals for this process. The interpreter writes the number before any Python code runs."""
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in signals:
            # A hang-up that whoever started us has had ignored (nohup) stays ignored.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _leave_to_the_pipe)

    def read(self) -> list[signal.Signals]:
        """The signals that came since the last call."""
        try:
            return [signal.Signals(number) for number in os.read(self.fd, 4096)]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Close the pipe in this process; handlers stay as they are."""
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._write_fd)


class StopPipe:
    """Of a role: `fd` becomes readable with the first `STOP_ROLE` and stays so, since nobody reads it empty."""

    def __init__(self) -> None:
        """Take over `STOP_ROLE` for this process."""
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # Not set_wakeup_fd: event loops want that one for themselves.
        signal.signal(STOP_ROLE, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        try:
            os.write(self._write_fd, b"\0")
        except BlockingIOError:
            pass  # it is full, so it is readable


def _leave_to_the_pipe(_number: int, _frame: FrameType | None) -> None:
    """The byte is in the pipe already."""
