"""Which installed unit a data folder belongs to."""

from pathlib import Path

import pytest

from appliance import service_files
from appliance.service_files import configuration_of, service_of


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with headrace.service and headrace@east."""
    monkeypatch.setattr(service_files, "SERVICE_DATA", tmp_path / "headrace")
    monkeypatch.setattr(service_files, "SERVICE_CONFIGURATION", tmp_path / "etc")
    monkeypatch.setattr(service_files, "UNITS", tmp_path / "units")
    for folder in (tmp_path / "etc", tmp_path / "etc" / "east"):
        folder.mkdir()
        (folder / "broker.conf").touch()
    return tmp_path


def drop_in(root: Path, unit: str, text: str, name: str = "override.conf") -> Path:
    """A change of a unit, as `systemctl edit` writes it."""
    path = root / "units" / f"{unit}.service.d" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_default_folders_belong_to_their_units(root: Path) -> None:
    assert service_of(root / "headrace") == "headrace"
    assert service_of(root / "headrace-east") == "headrace@east"
    assert service_of(root / "headrace-west") is None  # it has no configuration
    assert service_of(root / "elsewhere") is None
    assert configuration_of("headrace") == root / "etc"
    assert configuration_of("headrace@east") == root / "etc" / "east"


@pytest.mark.parametrize(("unit", "default"), [("headrace", "headrace"), ("headrace@east", "headrace-east")])
def test_chosen_folder_replaces_the_default_one(root: Path, unit: str, default: str) -> None:
    drop_in(root, unit, f'[Service]\nEnvironment="HEADRACE_DATA={root}/chosen"\n')
    assert service_of(root / "chosen") == unit
    assert service_of(root / default) is None


def test_last_drop_in_counts(root: Path) -> None:
    drop_in(root, "headrace", f"[Service]\nEnvironment=HEADRACE_DATA={root}/later\n", "override.conf")
    drop_in(root, "headrace", f"[Service]\nEnvironment=HEADRACE_DATA={root}/earlier\n", "data.conf")
    assert service_of(root / "later") == "headrace"
    assert service_of(root / "earlier") is None


def test_drop_in_that_cannot_be_read_is_ignored(root: Path) -> None:
    drop_in(root, "headrace", "").write_bytes(b"Environment=HEADRACE_DATA=/srv/\xff\n")
    (root / "units" / "headrace@east.service.d" / "folder.conf").mkdir(parents=True)
    assert service_of(root / "headrace") == "headrace"
    assert service_of(root / "headrace-east") == "headrace@east"
