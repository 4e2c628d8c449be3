"""Errors of `write_configuration`; tests/e2e/test_setup.py covers the command."""

import errno
import os
from pathlib import Path

import pytest

from appliance import setup_files
from appliance.errors import ApplianceError


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EACCES, "; run the command as root"),
        (errno.EPERM, "; run the command as root"),
        (errno.ENOSPC, ""),
        (errno.EROFS, ""),
    ],
)
def test_error_of_write_advises_root_only_without_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def fail(path: Path, _text: str) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(setup_files, "_replace", fail)
    answers = setup_files.Answers("127.0.0.1", tmp_path / "data", 8192, tls=False, admin="")
    with pytest.raises(ApplianceError) as caught:
        setup_files.write_configuration(answers, tmp_path / "conf")
    assert str(caught.value) == f"cannot write {tmp_path}/conf/appliance.toml: {os.strerror(number)}{advice}"
