"""The command line and environment of a filter worker's interpreter.

Of its parent's environment, in which there may be secrets, it is given next to nothing.
"""

import os

from ipc import interpreter

_KEPT = ("LD_LIBRARY_PATH",)
"""Without it an interpreter may not find its own library."""


def command(listening_fd: int, memory_bytes: int, title: str = "headrace: filter") -> list[str]:
    """The command line of a worker that is called at a listening Unix socket, which it must inherit."""
    return interpreter.command(
        f"from setproctitle import setproctitle; setproctitle({title!r}); "
        f"from store.filter.python import worker; worker.main({listening_fd}, {memory_bytes})"
    )


def environment() -> dict[str, str]:
    """What it may know of its surroundings."""
    return {"LANG": "C.UTF-8"} | {name: os.environ[name] for name in _KEPT if name in os.environ}
