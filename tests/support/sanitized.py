"""The compiled modules with sanitizers in them (`make sanitized`), and how a process comes to use them in place of the ordinary ones.

A process that was started with `environment()` imports them: with the sanitizers' library loaded first, and with each object in memory of its
own, so that a read beyond its end is seen. What they find ends the process.
"""

import importlib.util
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "build" / "sanitized"
_SWITCH = "HEADRACE_SANITIZED"


class _SanitizedFirst:
    """Finds the sanitized form of a module, where there is one."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004
        *folders, last = name.split(".")
        for module in (MODULES.joinpath(*folders)).glob(f"{last}.*.so"):
            return importlib.util.spec_from_file_location(name, module)
        return None


def is_built() -> bool:
    """Whether there are any, all newer than their sources."""
    built = list(MODULES.rglob("*.so"))
    sources = [Path(str(one).replace(str(MODULES), str(ROOT)).split(".cpython")[0] + ".py") for one in built]
    return bool(built) and all(
        source.exists() and source.stat().st_mtime <= one.stat().st_mtime
        for one, source in zip(built, sources, strict=True)
    )


def environment() -> dict[str, str]:
    """What a process needs in its environment."""
    libraries = [
        subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        _SWITCH: "1",
        "LD_PRELOAD": ":".join(libraries),
        "PYTHONMALLOC": "malloc",
        # Python keeps what it has until it ends; memory that was freed is kept apart, but not too much of it. Stacks of allocations cost a third of
        # the time; who needs one runs the finding's batch again.
        "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16:allocator_may_return_null=1:max_malloc_fill_size=0:malloc_context_size=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }


def site() -> str:
    """A PYTHONPATH with which a program that knows nothing of this imports them too."""
    return f"{ROOT / 'tests' / 'support' / 'sanitizing'}:{ROOT / 'tests'}:{ROOT}"


def is_on() -> bool:
    """Whether this process was started so."""
    return _SWITCH in os.environ


def install() -> None:
    """Lets this process import them, if it was started so."""
    if is_on():
        sys.meta_path.insert(0, _SanitizedFirst)
