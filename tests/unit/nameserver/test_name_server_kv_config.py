import json
import os
from pathlib import Path

import pytest

from nameserver.errors import KvConfigUnreadable
from nameserver.kv_config import KvConfig


def test_keys_survive_in_the_file_that_rocketmq_reads(tmp_path: Path) -> None:
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


def test_what_was_never_put_is_not_found(tmp_path: Path) -> None:
    kv = KvConfig(tmp_path / "kvConfig.json")
    assert kv.find("space", "k") is None
    assert kv.find_table("space") is None
    kv.delete("space", "k")
    assert kv.find_table("space") is None


def test_a_namespace_stays_when_its_last_key_is_deleted(tmp_path: Path) -> None:
    kv = KvConfig(tmp_path / "kvConfig.json")
    kv.put("space", "k", "v")
    kv.delete("space", "k")
    table = kv.find_table("space")
    assert table is not None
    assert table.table == {}


def test_a_key_without_a_value_makes_the_namespace_and_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    kv = KvConfig(path)
    kv.put("space", "k", None)
    assert kv.find("space", "k") is None
    table = kv.find_table("space")
    assert table is not None
    assert table.table == {}
    assert json.loads(path.read_text()) == {"configTable": {"space": {}}}


def test_an_empty_file_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("\n")
    assert KvConfig(path).find_table("space") is None


@pytest.mark.parametrize("text", ["{", "[]", '{"configTable":[]}', '{"configTable":{"space":3}}', "nonsense"])
def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(text)
    with pytest.raises(KvConfigUnreadable, match=r"cannot read .*kvConfig\.json"):
        KvConfig(path)
    assert path.read_text() == text


def test_a_folder_in_the_files_place_is_said(tmp_path: Path) -> None:
    with pytest.raises(KvConfigUnreadable):
        KvConfig(tmp_path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
