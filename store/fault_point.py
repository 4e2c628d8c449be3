"""Named places in the code at which a crash test may kill the process.

    fault_point("commit_log.copied")

With `HEADRACE_FAULT_POINT=commit_log.copied` in the environment the process kills itself there with SIGKILL, with
`commit_log.copied:3` at the third pass; several are set apart by commas. A process that takes a dead one's place has the same
environment and would die there again, unless `HEADRACE_FAULT_POINT_ONCE` names a directory: who dies leaves a file there
with the name of the place, and nobody dies at a place whose file is there. Without either a call is one comparison. The
names are a contract with the crash tests: each must be hit by one.
"""

import os
import signal

ENVIRONMENT = "HEADRACE_FAULT_POINT"
ONCE = "HEADRACE_FAULT_POINT_ONCE"

_passes_left: dict[str, int] = {}


def arm(setting: str | None) -> None:
    """Chooses the places, each as `name` or `name:n-th pass`; None disarms. Called at import with the environment's value."""
    _passes_left.clear()
    for place in (setting or "").split(","):
        name, _, passes = place.partition(":")
        if name:
            _passes_left[name] = int(passes or 1)


def fault_point(name: str) -> None:
    """Kills the process here, at once and without any clean-up, if this fault point was chosen."""
    if _passes_left and name in _passes_left:
        _pass(name)


def _pass(name: str) -> None:
    _passes_left[name] -= 1
    if _passes_left[name] > 0:
        return
    directory = os.environ.get(ONCE)
    if directory:
        try:
            os.close(os.open(os.path.join(directory, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            del _passes_left[name]
            return
    os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get(ENVIRONMENT))
