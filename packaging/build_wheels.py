"""Builds the wheels of both distributions: `python packaging/build_wheels.py FOLDER`.

    headrace-V-py3-none-any.whl                      the SDK, pure Python
    headrace_appliance-V-cpXY-cpXY-PLATFORM.whl      the appliance with its compiled modules, for this Python and this platform

Needs the packages of the group `build` in pyproject.toml, a C compiler and Python's headers. Equal sources, versions and
SOURCE_DATE_EPOCH give equal wheels.
"""

# ruff: noqa: INP001 (a program, no package)

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SDK: Final[dict[str, Any]] = runpy.run_path(str(ROOT / "packaging" / "sdk" / "build_wheel.py"))
_FILES: Final = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "NOTICE")


def build_appliance_wheel(folder: Path) -> Path:
    """Builds the wheel in `folder` and returns its path. Raises CalledProcessError with pip's output."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as staging:
        source, made = Path(staging, "source"), Path(staging, "made")
        source.mkdir()
        for name in _FILES:
            shutil.copy(ROOT / name, source)
        for package in sorted(path.parent for path in ROOT.glob("*/__init__.py")):
            shutil.copytree(package, source / package.name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        (source / "setup.cfg").write_text(f"[build_ext]\nparallel = {os.cpu_count()}\n", encoding="utf-8")
        # Paths of this build are kept out of the compiled modules, so that two builds are equal.
        flags = f"{os.environ.get('CFLAGS', '')} -ffile-prefix-map={staging}=."
        command = [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made), str(source),
        ]  # fmt: skip
        subprocess.run(command, check=True, env={**os.environ, "CFLAGS": flags})
        (wheel,) = made.glob("headrace_appliance-*.whl")
        return Path(shutil.move(wheel, folder / wheel.name))


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()
    print(SDK["build_wheel"](target))  # noqa: T201
    print(build_appliance_wheel(target))  # noqa: T201
