from pathlib import Path

import pytest

from appliance.errors import ProgramReplaced
from appliance.installed_program import InstalledProgram


def install(site_packages: Path, version: str, files: str) -> None:
    folder = site_packages / f"headrace_appliance-{version}.dist-info"
    folder.mkdir()
    (folder / "RECORD").write_text(files)


def test_same_files_installed_again_are_the_same_program(tmp_path: Path) -> None:
    install(tmp_path, "0.1.0", "store/errors.py,sha256=a,1")
    program = InstalledProgram(tmp_path)
    program.check()
    (tmp_path / "headrace_appliance-0.1.0.dist-info" / "RECORD").write_text("store/errors.py,sha256=a,1")
    program.check()


def test_another_build_of_the_same_version_replaces_the_program(tmp_path: Path) -> None:
    install(tmp_path, "0.1.0", "store/errors.py,sha256=a,1")
    program = InstalledProgram(tmp_path)
    (tmp_path / "headrace_appliance-0.1.0.dist-info" / "RECORD").write_text("store/errors.py,sha256=b,1")
    with pytest.raises(ProgramReplaced, match="was replaced"):
        program.check()


def test_another_version_or_none_replaces_the_program(tmp_path: Path) -> None:
    install(tmp_path, "0.1.0", "store/errors.py,sha256=a,1")
    program = InstalledProgram(tmp_path)
    (tmp_path / "headrace_appliance-0.1.0.dist-info").rename(tmp_path / "headrace_appliance-0.2.0.dist-info")
    with pytest.raises(ProgramReplaced):
        program.check()
    (tmp_path / "headrace_appliance-0.2.0.dist-info" / "RECORD").unlink()
    with pytest.raises(ProgramReplaced):
        program.check()


def test_clone_is_never_replaced(tmp_path: Path) -> None:
    InstalledProgram(tmp_path).check()
