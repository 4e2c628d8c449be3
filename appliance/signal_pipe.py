"""Signals as bytes in a pipe: a handler only writes a byte, and the loop acts when it reads it.

Nothing is logged, locked or allocated inside a signal handler.
"""

import os
import signal
from collections.abc import Iterable
from types import FrameType
from typing import Final

STOP_ROLE: Final = signal.SIGUSR1
"""The signal that stops a role: sent by the supervisor, or by the kernel if the supervisor has died.

Not SIGTERM, which a service manager, a container or `timeout` sends to every process of a group: the supervisor determines the order
of stopping, so roles ignore it.
"""


class SignalPipe:
    """For the supervisor: the numbers of received signals, in order, through `fd`."""

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        """Handle these signals in this process. The interpreter writes the number before any Python code runs."""
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in signals:
            # SIGHUP stays ignored if it was ignored at the start (nohup).
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _leave_to_the_pipe)

    def read(self) -> list[signal.Signals]:
        """The signals received since the last call."""
        try:
            return [signal.Signals(number) for number in os.read(self.fd, 4096)]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Close the pipe in this process; handlers are kept."""
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._write_fd)


class StopPipe:
    """For a role: `fd` becomes readable at the first `STOP_ROLE` and stays readable, because nothing reads it."""

    def __init__(self) -> None:
        """Take over `STOP_ROLE` for this process."""
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # Not set_wakeup_fd, which event loops use.
        signal.signal(STOP_ROLE, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        try:
            os.write(self._write_fd, b"\0")
        except BlockingIOError:
            pass  # it is full, so it is readable


def _leave_to_the_pipe(_number: int, _frame: FrameType | None) -> None:
    """The byte is already in the pipe."""
