import json
import os
from pathlib import Path

import pytest

from nameserver.errors import KvConfigUnreadable
from nameserver.kv_config import KvConfig


def test_keys_persist_in_rocketmqs_file_format(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "kvConfig.json"
    kv = KvConfig(path)
    kv.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    kv.put("space", "k", 'größer "2"')
    assert json.loads(path.read_text()) == {
        "configTable": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:4"}, "space": {"k": 'größer "2"'}}
    }
    again = KvConfig(path)
    assert again.find("space", "k") == 'größer "2"'
    assert again.find_order_config("T") == "broker-a:4"
    assert again.find_order_config("U") is None
    again.delete("space", "k")
    assert KvConfig(path).find("space", "k") is None


def test_unknown_key_is_not_found(tmp_path: Path) -> None:
    kv = KvConfig(tmp_path / "kvConfig.json")
    assert kv.find("space", "k") is None
    assert kv.find_table("space") is None
    kv.delete("space", "k")
    assert kv.find_table("space") is None


def test_namespace_remains_when_its_last_key_is_deleted(tmp_path: Path) -> None:
    kv = KvConfig(tmp_path / "kvConfig.json")
    kv.put("space", "k", "v")
    kv.delete("space", "k")
    table = kv.find_table("space")
    assert table is not None
    assert table.table == {}


def test_key_without_a_value_creates_only_the_namespace(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    kv = KvConfig(path)
    kv.put("space", "k", None)
    assert kv.find("space", "k") is None
    table = kv.find_table("space")
    assert table is not None
    assert table.table == {}
    assert json.loads(path.read_text()) == {"configTable": {"space": {}}}


def test_empty_file_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("\n")
    assert KvConfig(path).find_table("space") is None


@pytest.mark.parametrize("text", ["{", "[]", '{"configTable":[]}', '{"configTable":{"space":3}}', "nonsense"])
def test_file_of_another_format_is_not_changed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(text)
    with pytest.raises(KvConfigUnreadable, match=r"cannot read .*kvConfig\.json"):
        KvConfig(path)
    assert path.read_text() == text


def test_folder_in_place_of_the_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(KvConfigUnreadable):
        KvConfig(tmp_path)


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kvConfig.json"
    kv = KvConfig(path)
    kv.put("space", "k", "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        kv.put("space", "k", "new")
    monkeypatch.undo()
    assert KvConfig(path).find("space", "k") == "old"
    assert os.path.exists(path)
