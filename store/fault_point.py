"""Named places in the code at which a crash test may kill the process.

    fault_point("commit_log.copied")

With `HEADRACE_FAULT_POINT=commit_log.copied` in the environment the process kills itself there with SIGKILL, with
`commit_log.copied:3` at the third pass. Without it a call is one comparison. The names are a contract with the crash tests:
each must be hit by one.
"""

import os
import signal

ENVIRONMENT = "HEADRACE_FAULT_POINT"

_armed: str | None = None
_passes_left = 0


def arm(setting: str | None) -> None:
    """Chooses the place, as `name` or `name:n-th pass`; None disarms. Called at import with the environment's value."""
    global _armed, _passes_left
    name, _, passes = (setting or "").partition(":")
    _armed = name or None
    _passes_left = int(passes or 1)


def fault_point(name: str) -> None:
    """Dies here, at once and without any clean-up, if this place was chosen."""
    if _armed is None:
        return
    if name == _armed:
        _pass()


def _pass() -> None:
    global _passes_left
    _passes_left -= 1
    if _passes_left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get(ENVIRONMENT))
