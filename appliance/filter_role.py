"""A filter role: waits for the broker's call, and becomes the fresh interpreter in which one filter function runs.

Forked like any other role, it has the appliance's shared memory mapped and the supervisor's modules loaded, which is nothing for foreign
code. So it runs none: it sleeps at its socket until somebody calls, and then executes the worker in its place (store/filter/python), which
inherits the socket alone. Until then it costs a sleeping process and not even a heartbeat.
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

_NICENESS = 5  # limit: where processor time is short, the broker's own processes go first
_KILL_FIRST = "1000"
_OWNER_ONLY = 0o600


def run(context: RoleContext, title: str, socket: Path, memory_bytes: int) -> None:
    """Returns when told to stop before anybody calls; does not return otherwise. Raises SandboxUnavailable, OSError."""
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
    # Whoever calls now is refused at once, and knows that this one is taken.
    socket.unlink(missing_ok=True)
    # A function may have itself deaf to every signal but this one.
    process.end_with_parent(supervisor_pid, signal.SIGKILL)
    os.nice(_NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_KILL_FIRST)
    server.setblocking(True)
    server.set_inheritable(True)
    command = launch.command(server.fileno(), memory_bytes, f"headrace: {title}")
    os.execve(command[0], command, launch.environment())  # noqa: S606  (no shell, a program of our own)
