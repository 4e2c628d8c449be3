"""What packages are built with and from."""

import re
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def test_version_of_everything_that_packages_contain_is_fixed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = [
        *project["project"]["dependencies"],
        *extras["export-local"],
        *extras["object-store"],
        *project["dependency-groups"]["build"],
        "cyclonedx-bom",
        "pip",
    ]
    lines = (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    fixed = {name_of(line) for line in lines if "==" in line}
    assert {name_of(requirement) for requirement in wanted} - {"headrace"} <= fixed


def test_lists_of_installed_files_name_only_files_that_exist(tmp_path: Path) -> None:
    record = tmp_path / "a-1.dist-info" / "RECORD"
    record.parent.mkdir()
    (tmp_path / "a.py").touch()
    (tmp_path / "b, c.py").touch()
    record.write_text('"b, c.py",sha256=2,2\n../../bin/a,sha256=3,3\na.py,sha256=1,1\na-1.dist-info/RECORD,,\n')
    runpy.run_path(str(ROOT / "packaging" / "clean_records.py"))["clean"](tmp_path)
    assert record.read_text() == 'a-1.dist-info/RECORD,,\na.py,sha256=1,1\n"b, c.py",sha256=2,2\n'
