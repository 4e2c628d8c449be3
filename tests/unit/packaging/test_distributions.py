"""The metadata of the two distributions: `headrace`, the SDK, and `headrace-appliance`, everything else."""

import shutil
import subprocess
import sys
import tarfile
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

import headrace

ROOT = Path(__file__).parents[3]


def read_project(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


def test_distributions_own_no_package_in_common() -> None:
    appliance, sdk = (
        read_project(folder)["tool"]["setuptools"]["packages"]["find"] for folder in (".", "packaging/sdk")
    )
    packages = [path.parent.name for path in ROOT.glob("*/__init__.py")]
    owners = {
        package: [any(fnmatch(package, pattern) for pattern in found["include"]) for found in (appliance, sdk)]
        for package in packages
    }
    assert owners.pop("headrace") == [False, True]
    assert set(map(tuple, owners.values())) == {(True, False)}


def test_appliance_needs_the_sdk_of_its_own_version() -> None:
    assert f"headrace=={headrace.__version__}" in read_project(".")["project"]["dependencies"]


def test_both_have_the_same_authors_and_licence() -> None:
    appliance, sdk = (read_project(folder)["project"] for folder in (".", "packaging/sdk"))
    for key in ("authors", "license", "requires-python"):
        assert appliance[key] == sdk[key]
    assert appliance["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.slow
def test_source_distribution_has_what_its_compiled_modules_need(tmp_path: Path) -> None:
    source = tmp_path / "source"
    packages = [path.parent.name for path in ROOT.glob("*/__init__.py")]
    for package in packages:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    program = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=source, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for package in packages:
        for pattern in ("*.py", "*.pxd"):
            assert {str(path.relative_to(source)) for path in (source / package).rglob(pattern)} <= names
