"""Compiled modules with sanitizers (`make sanitized`), and how a process imports them instead of the ordinary ones.

A process started with `environment()` imports them. The sanitizers' library is preloaded, and each object has its own
allocation, so that a read beyond its end is detected. A detected error ends the process.
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
    """Finds the sanitized form of a module, if there is one."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004
        *folders, last = name.split(".")
        for module in (MODULES.joinpath(*folders)).glob(f"{last}.*.so"):
            return importlib.util.spec_from_file_location(name, module)
        return None


def is_built() -> bool:
    """Whether sanitized modules exist and are newer than their sources."""
    built = list(MODULES.rglob("*.so"))
    sources = [Path(str(one).replace(str(MODULES), str(ROOT)).split(".cpython")[0] + ".py") for one in built]
    return bool(built) and all(
        source.exists() and source.stat().st_mtime <= one.stat().st_mtime
        for one, source in zip(built, sources, strict=True)
    )


def environment() -> dict[str, str]:
    """The environment variables that a process needs."""
    libraries = [
        subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        _SWITCH: "1",
        "LD_PRELOAD": ":".join(libraries),
        "PYTHONMALLOC": "malloc",
        # Python keeps its objects until exit (no leak check); the quarantine of freed memory is limited. Allocation
        # stacks cost a third of the time; to get them, run the finding's batch again.
        "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16:allocator_may_return_null=1:max_malloc_fill_size=0:malloc_context_size=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }


def site() -> str:
    """A PYTHONPATH that makes any program import them."""
    return f"{ROOT / 'tests' / 'support' / 'sanitizing'}:{ROOT / 'tests'}:{ROOT}"


def is_on() -> bool:
    """Whether this process was started that way."""
    return _SWITCH in os.environ


def install() -> None:
    """Makes this process import them if it was started that way."""
    if is_on():
        sys.meta_path.insert(0, _SanitizedFirst)
