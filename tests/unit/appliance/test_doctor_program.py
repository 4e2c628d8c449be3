"""`headrace doctor program` reports which hot modules are compiled."""

import importlib.machinery
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance import hot_modules
from appliance.cli.commands.doctor.program import command

ROOT = Path(__file__).parents[3]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed program that consists of one package with one hot module, not compiled."""
    package = tmp_path / "doctor_toy"
    package.mkdir()
    for name in ("__init__.py", "__init__.pxd", "plain.py", "types_only.pxd", "hot.py", "hot.pxd"):
        (package / name).touch()
    monkeypatch.setattr(hot_modules, "_SITE_PACKAGES", tmp_path)
    monkeypatch.setattr(hot_modules, "_PACKAGES", ("doctor_toy",))
    monkeypatch.setattr(hot_modules, "_OF_THE_SDK", ())
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "doctor_toy"]:
        del sys.modules[name]


def test_every_hot_module_of_the_project_is_found() -> None:
    packages = [path.parent for path in ROOT.glob("*/__init__.py")]
    types = [path for package in packages for path in package.rglob("*.pxd")]
    sources = [
        path.with_suffix(".py") for path in types if path.stem != "__init__" and path.with_suffix(".py").exists()
    ]
    assert hot_modules.find_hot_modules() == sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sources
    )


def test_program_with_compiled_modules_is_ok() -> None:
    done = CliRunner().invoke(command, standalone_mode=False)
    count = len(hot_modules.find_hot_modules())
    assert (done.return_value, done.output.splitlines()[1]) == (
        0,
        f"  ok    {count} of {count} hot modules are compiled",
    )


def test_interpreted_module_is_reported_with_its_file(package: Path) -> None:
    done = CliRunner().invoke(command, standalone_mode=False)
    assert done.return_value == 1
    assert "SLOW  0 of 1 hot modules are compiled; not compiled:" in done.output
    assert f"doctor_toy.hot: {package / 'hot.py'}" in done.output


def test_module_compiled_for_another_python_does_not_count(package: Path) -> None:
    (package / "hot.cpython-39-x86_64-linux-gnu.so").touch()
    assert hot_modules.find_interpreted(["doctor_toy.hot"]) == {"doctor_toy.hot": str(package / "hot.py")}
    (package / f"hot{importlib.machinery.EXTENSION_SUFFIXES[0]}").touch()
    assert hot_modules.find_interpreted(["doctor_toy.hot"]) == {}
