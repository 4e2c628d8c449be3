"""`help()` describes every public name; the docs build without warnings."""

import enum
import inspect
import pydoc
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headrace
import headrace.opentelemetry
import headrace.sync

ROOT = Path(__file__).resolve().parents[4]
NAMES = [
    pytest.param(module, name, id=f"{module.__name__}.{name}")
    for module, names in (
        (headrace, headrace.__all__),
        (headrace.sync, headrace.sync.__all__),
        (headrace.opentelemetry, ["ConsumerTelemetry", "ProducerTelemetry", "context_of"]),
    )
    for name in names
]


def members(cls: type) -> list[tuple[str, Any]]:
    """The members of a class that users see and that Python does not provide itself."""
    own = {name for base in cls.__mro__ if base.__module__.startswith("headrace") for name in vars(base)}
    found = [(name, inspect.getattr_static(cls, name)) for name in sorted(own) if not name.startswith("_")]
    return [
        (name, value)
        for name, value in found
        if isinstance(value, (property, classmethod, staticmethod)) or inspect.isfunction(value)
    ]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_help_describes_every_public_name(module: ModuleType, name: str) -> None:
    value = getattr(module, name)
    if name == "LATEST":
        return  # a number; its users document it
    text = inspect.getdoc(value)
    assert text, name
    assert not text.startswith(f"{name}("), "a dataclass's signature is no help"
    assert name in pydoc.plain(pydoc.render_doc(value))
    if inspect.isclass(value) and not issubclass(value, enum.Enum):
        for member, what in members(value):
            assert inspect.getdoc(what), f"{name}.{member}"


@pytest.mark.slow
def test_docs_build_without_warnings(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        "packaging/sdk/mkdocs.yml",
        "-d",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = {page.stem for page in (ROOT / "docs" / "sdk").glob("*.md")}
    assert {page.stem for page in tmp_path.glob("*.html")} - {"404"} == pages
