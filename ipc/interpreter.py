"""The command line that runs a part of the appliance in another Python process.

Used where the part must not be in the process that wants it: exports, filter workers, and the making of a certificate, whose library keeps 5 MiB.
The interpreter takes only the path of modules from its parent: `-I` keeps the folder it is started in and Python's variables away.
"""

import os
import sys


def command(program: str, *arguments: str) -> list[str]:
    """The command line. `program`: statements, which find `arguments` in `sys.argv[1:]`."""
    path = [os.path.abspath(entry or ".") for entry in sys.path]
    return [sys.executable, "-I", "-B", "-c", f"import sys; sys.path[:] = {path!r}; {program}", *arguments]
