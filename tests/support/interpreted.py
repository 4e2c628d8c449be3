"""Runs a function of a test module in a second interpreter, with or without compiled hot modules.

    python -m support.interpreted MODULE FUNCTION [compiled] < input > output

The function takes bytes and returns bytes; so do `run_interpreted` and `run_compiled`.
"""

import importlib
import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class _SourcesOnly:
    """Finds the `.py` of a module even if a compiled one is beside it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004
        source = ROOT / (name.replace(".", "/") + ".py")
        if source.exists() and source.with_suffix(".pxd").exists():
            return importlib.util.spec_from_file_location(name, source)
        return None


def run_interpreted(module: str, function: str, given: bytes) -> bytes:
    """The result of the function with all hot modules interpreted."""
    return _run(module, function, given)


def run_compiled(module: str, function: str, given: bytes) -> bytes:
    """The result of the function with compiled hot modules, if available. A crash there fails only the test."""
    return _run(module, function, given, "compiled")


def _run(module: str, function: str, given: bytes, *form: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "support.interpreted", module, function, *form],
        input=given,
        capture_output=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr.decode()}"
    return done.stdout


def sources_only() -> None:
    """Prevents this process from importing our compiled modules."""
    sys.meta_path.insert(0, _SourcesOnly)


if __name__ == "__main__":
    if "compiled" not in sys.argv[3:]:
        sources_only()
    work = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])
    sys.stdout.buffer.write(work(sys.stdin.buffer.read()))
