"""A filter role: waits for a connection of the broker, then executes a new interpreter that runs one filter function.

A forked role has the appliance's shared memory and the supervisor's modules, which foreign code must not reach. So this process
runs no foreign code: it sleeps at its socket until the broker connects, and then executes the worker (store/filter/python), which
inherits only the socket. Until then it is a sleeping process without heartbeats.
"""

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

from appliance import process
from ipc.control_socket import listen
from ipc.role_context import RoleContext
from store.filter.python import launch
from store.filter.python.sandbox import check_kernel

_NICENESS = 5  # limit: the broker's own processes have priority
_KILL_FIRST = "1000"
_OWNER_ONLY = 0o600


def run(context: RoleContext, title: str, socket: Path, memory_bytes: int) -> None:
    """Returns only if it is stopped before a connection arrives. Raises SandboxUnavailable, OSError."""
    check_kernel()
    supervisor_pid = os.getppid()
    server = listen(socket)
    os.chmod(socket, _OWNER_ONLY)
    context.running()
    poll = select.poll()
    poll.register(server, select.POLLIN)
    poll.register(context.stop_fd, select.POLLIN)
    if context.stop_fd in [fd for fd, _ in poll.poll()]:
        return
    # Later connections are refused at once, which shows that this worker is in use.
    socket.unlink(missing_ok=True)
    # A function may ignore every other signal.
    process.end_with_parent(supervisor_pid, signal.SIGKILL)
    os.nice(_NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_KILL_FIRST)
    server.setblocking(True)
    server.set_inheritable(True)
    command = launch.command(server.fileno(), memory_bytes, f"headrace: {title}")
    os.execve(command[0], command, launch.environment())  # noqa: S606  (no shell, a program of our own)
