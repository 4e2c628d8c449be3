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
ROOT: Final = HERE.parents[1]
PACKAGE: Final = ROOT / "headrace"


def build_wheel(folder: Path) -> Path:
    """Builds the wheel in `folder` and returns its path. Raises CalledProcessError with pip's output."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as staging:
        project = Path(staging, "packaging", "sdk")
        project.mkdir(parents=True)
        for source in (HERE / "pyproject.toml", HERE / "README.md", ROOT / "LICENSE", ROOT / "NOTICE"):
            shutil.copy(source, project)
        for source in [*PACKAGE.rglob("*.py"), PACKAGE / "py.typed"]:
            target = Path(staging, source.relative_to(ROOT))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        made = Path(staging, "made")
        command = [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made), str(project),
        ]  # fmt: skip
        subprocess.run(command, check=True)
        (wheel,) = made.glob("headrace-*.whl")
        return Path(shutil.move(wheel, folder / wheel.name))


if __name__ == "__main__":
    print(build_wheel(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")))  # noqa: T201
