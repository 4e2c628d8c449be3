"""Where the process of an export may write, and what it is given."""

import json
import os
from pathlib import Path

import pytest

from appliance import export_process
from appliance.errors import ExportRefused
from appliance.export_order import ExportOrder


def test_folder_of_exports_is_made_for_the_first_target(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "exports"
    assert export_process.make_target(folder, "orders", tmp_path / "data" / "store") == folder / "orders"
    assert folder.is_dir()
    assert not (folder / "orders").exists()


def test_folder_of_exports_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "exports").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "orders").mkdir()
    target = export_process.make_target(tmp_path / "exports", "orders", tmp_path / "store")
    assert target.resolve() == tmp_path / "disk" / "orders"


@pytest.mark.parametrize("place", ["orders", "orders/_export"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "file", "pipe"])
def test_target_that_is_not_a_folder_is_refused(tmp_path: Path, place: str, kind: str) -> None:
    path = tmp_path / "exports" / place
    path.parent.mkdir(parents=True)
    match kind:
        case "link":
            (tmp_path / "elsewhere").mkdir()
            path.symlink_to(tmp_path / "elsewhere")
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case "file":
            path.write_text("x")
        case _:
            os.mkfifo(path)
    with pytest.raises(ExportRefused, match=f"{place} is a link or a file, not a folder"):
        export_process.make_target(tmp_path / "exports", "orders", tmp_path / "store")


@pytest.mark.parametrize("place", ["", "exports", "commitlog/exports"])
def test_folder_of_exports_inside_the_store_is_refused(tmp_path: Path, place: str) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (tmp_path / "alias").symlink_to(store)
    for folder in (store / place, tmp_path / "alias" / place):
        with pytest.raises(ExportRefused, match="inside the store"):
            export_process.make_target(folder, "orders", store)
    assert list(store.iterdir()) == []


def test_folder_that_the_exporter_would_take_for_a_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportRefused, match="set exportFolder"):
        export_process.make_target(tmp_path / "a#b", "orders", tmp_path / "store")


def test_full_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportRefused, match=r"full, and exports stop at 0%; free some space"):
        export_process.check_disk(tmp_path, level=0.0)
    export_process.check_disk(tmp_path, level=1.01)


def test_every_value_is_part_of_one_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    order = ExportOrder("orders", "parquet", ("--strict", "Orders"), "", 1_795_000_000_001, 1_795_000_001_000)
    command = export_process.command(order, "/exports", "/data/store", "--dry-run", "c")
    given = json.loads(command[-1])
    assert given["target"] == "orders"
    assert given["options"] == [
        "--format=parquet", "--broker=--dry-run", "--cluster=c", "--engine=local", "--workers=1", "--progress=lines",
        "--topic=--strict", "--topic=Orders", "--from=2026-11-18T11:06:40.001+00:00", "--to=2026-11-18T11:06:41.000+00:00",
    ]  # fmt: skip
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "hunter2")
    monkeypatch.setenv("PYTHONPATH", "/tmp/foreign")
    assert set(export_process.environment()) <= {
        "LANG",
        "OMP_NUM_THREADS",
        "LD_LIBRARY_PATH",
        "HOME",
        "PATH",
        "TMPDIR",
        "TZ",
    }
