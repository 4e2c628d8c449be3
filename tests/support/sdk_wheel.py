"""The wheel `headrace`, and an environment with nothing but the wheel and its dependencies."""

import importlib.util
import shutil
import venv
import zipfile
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path) -> Path:
    """Builds the wheel into the folder and returns its path."""
    spec = importlib.util.spec_from_file_location("build_wheel", ROOT / "packaging" / "sdk" / "build_wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built: Path = module.build_wheel(folder)
    return built


def clean_environment(wheel: Path, home: Path) -> Path:
    """Creates a virtual environment at `home` with the wheel and returns its interpreter. Nothing is downloaded."""
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    shutil.copytree(Path(msgspec.__file__).parent, site / "msgspec")
    return home / "bin" / "python"
