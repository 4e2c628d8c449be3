"""The process of a role, from its fork to its work, and how its end is reported.

It is forked early, so that roles import in parallel, and then waits at its gate until the supervisor releases it; none of
its work is done before. The order matters: signals are blocked during the fork, so that none reaches an incomplete child, and the stop pipe
exists before the kernel is asked to signal the death of the supervisor.

A role ends in one of four ways: it returns (0); it raises before it is running, or in its only run
(`COULD_NOT_START`, with a one-line reason); it raises later (`FAILED`); a signal ends it. The reason is sent to the
supervisor through a pipe of the child. A child never returns into the supervisor's loop.
"""

import faulthandler
import gc
import logging
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Final, Generic, NoReturn

from msgspec import Struct

from appliance import exit_code, process
from appliance.errors import ApplianceError
from appliance.orphan_stop import OrphanStopOrder
from appliance.role import C, Role, S
from appliance.signal_pipe import STOP_ROLE, StopPipe
from ipc.role_pages import RolePages

_MAX_REASON_BYTES: Final = 4096

logger = logging.getLogger(__name__)


class Child(Struct, frozen=True):
    """A forked role, as the supervisor sees it."""

    pid: int
    reason_fd: int
    gate_fd: int

    def release(self) -> None:
        """Release it to begin its work."""
        try:
            os.write(self.gate_fd, b"\0")
        except BrokenPipeError:
            pass  # it has already died, and will be waited for

    def read_reason(self) -> str:
        """The one-line reason of its end, if it sent one. Called once, after it has been waited for."""
        try:
            return os.read(self.reason_fd, _MAX_REASON_BYTES).decode("utf-8", "replace")
        except BlockingIOError:
            return ""
        finally:
            os.close(self.reason_fd)
            os.close(self.gate_fd)


class Inheritance(Struct, Generic[C], frozen=True):
    """What every child of a set of roles receives from the supervisor, and how it releases what it must not keep."""

    pages: RolePages
    make_context: Callable[[str, int, Callable[[], bool]], C]
    """Creates the context of a role from its name, its stop pipe and `may_stop`."""
    stacks_fd: int
    release: Callable[[], None]
    """Releases what belongs only to the supervisor or to other brokers."""
    release_lock: Callable[[], None]
    """Releases the store's lock, in a role that does not write to the store."""
    log_as: Callable[[str], None]
    check_program: Callable[[], None]
    """Raises ProgramReplaced if the installed program is no longer the supervisor's."""
    orphan_patience_ms: int
    """How long a role waits for the roles that it outlives after the supervisor has died."""


def fork_role(role: Role[C, S], full_name: str, settings: S, inheritance: Inheritance[C]) -> Child:
    """Fork a process that runs the role. `full_name` is its name in logs. Raises OSError if the system has no room for it, ProgramReplaced."""
    inheritance.check_program()
    supervisor_pid = os.getpid()
    reason_fd, reason_write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    gate_read_fd, gate_fd = os.pipe2(os.O_CLOEXEC)
    sys.stdout.flush()
    sys.stderr.flush()
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            os.close(gate_fd)
            _be_child(role, full_name, settings, inheritance, supervisor_pid, _Ends(reason_write_fd, gate_read_fd))
    except OSError:
        os.close(reason_fd)
        os.close(gate_fd)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
        os.close(reason_write_fd)
        os.close(gate_read_fd)
    return Child(pid, reason_fd, gate_fd)


class _Ends(Struct, frozen=True):
    """The child's ends of its two pipes."""

    reason_fd: int
    gate_fd: int

    def say_reason(self, reason: str) -> None:
        os.write(self.reason_fd, reason.encode("utf-8")[:_MAX_REASON_BYTES])

    def wait_at_gate(self, stop_fd: int) -> bool:
        """Whether it was released; False if it was stopped first, or the supervisor has died."""
        poll = select.poll()
        poll.register(self.gate_fd, select.POLLIN)
        poll.register(stop_fd, select.POLLIN)
        ready = [fd for fd, _ in poll.poll()]
        return stop_fd not in ready and os.read(self.gate_fd, 1) != b""


def _be_child(
    role: Role[C, S], full_name: str, settings: S, inheritance: Inheritance[C], supervisor_pid: int, ends: _Ends
) -> NoReturn:
    code = exit_code.FAILED
    try:
        stop_pipe = _set_signals(inheritance.stacks_fd)
        gc.disable()
        process.set_title(full_name)
        inheritance.release()
        if not role.holds_store:
            inheritance.release_lock()
        inheritance.log_as(full_name)
        process.end_with_parent(supervisor_pid, STOP_ROLE)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        order = OrphanStopOrder(inheritance.pages.health, role.outlives, supervisor_pid, inheritance.orphan_patience_ms)
        code = _run(role, settings, inheritance, stop_pipe.fd, order, ends)
    except BaseException as error:  # noqa: BLE001  nothing may carry a child back into the supervisor's loop unseen
        ends.say_reason(one_line(error))
    finally:
        os._exit(code)


def _set_signals(stacks_fd: int) -> StopPipe:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Keyboard interrupts reach every process, other signals may; the supervisor determines the order of stopping.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # For SIGABRT and others: writes the stacks to the file, then the signal ends the process as usual.
    faulthandler.enable(file=stacks_fd, all_threads=True)
    return StopPipe()


def _run(
    role: Role[C, S], settings: S, inheritance: Inheritance[C], stop_fd: int, order: OrphanStopOrder, ends: _Ends
) -> int:
    try:
        role.prepare()
        # Imported objects stay for ever: the collector need not visit them again.
        gc.freeze()
        gc.enable()
        if ends.wait_at_gate(stop_fd):
            role.run(inheritance.make_context(role.name, stop_fd, order.may_stop), settings)
    except Exception as error:
        # The outermost call of a process: every error is reported and becomes an exit code.
        reason = one_line(error)
        ends.say_reason(reason)
        if role.runs_once or inheritance.pages.health.read_role(role.name).state == "starting":
            # The supervisor prints the reason; details for developers are in the log file.
            logger.info("role failed to start error=%r", reason, exc_info=error)
            return exit_code.COULD_NOT_START
        logger.exception("role failed error=%r", reason)
        return exit_code.FAILED
    return exit_code.CLEAN


def one_line(error: BaseException) -> str:
    """An error as one line. Errors of our packages are complete sentences; others are shown with their type."""
    text = " ".join(str(error).split())
    module = type(error).__module__.partition(".")[0]
    speaks_for_itself = isinstance(error, ApplianceError | OSError) or module in _OURS
    if text and speaks_for_itself:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


_OURS: Final = frozenset({"appliance", "broker", "headrace", "ipc", "nameserver", "store", "web"})
