"""Builds the wheel `headrace` (the client library alone): `python packaging/sdk/build_wheel.py FOLDER`.

It contains only what the package needs at run time: Python sources and the `py.typed` marker. Without compiled modules,
the wheel runs on every platform.
"""

# ruff: noqa: INP001 (a program, no package)

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
PACKAGE: Final = HERE.parents[1] / "headrace"
OURS: Final = ("pyproject.toml", "README.md")


def build_wheel(folder: Path) -> Path:
    """Builds the wheel in `folder` and returns its path. Raises CalledProcessError with pip's output."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as staging:
        root = Path(staging)
        for name in OURS:
            shutil.copy(HERE / name, root / name)
        for source in [*PACKAGE.rglob("*.py"), PACKAGE / "py.typed"]:
            target = root / "headrace" / source.relative_to(PACKAGE)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        made = root / "made"
        command = [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made), str(root),
        ]  # fmt: skip
        subprocess.run(command, check=True)
        (wheel,) = made.glob("headrace-*.whl")
        return Path(shutil.move(wheel, folder / wheel.name))


if __name__ == "__main__":
    print(build_wheel(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")))  # noqa: T201
