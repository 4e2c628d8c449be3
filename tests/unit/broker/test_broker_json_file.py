"""A file under config/: replaced whole, with its predecessor beside it."""

import os
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigFileUnreadable
from broker.json_file import JsonFile
from headrace.errors import RemoteProtocolError
from headrace.protocol import fastjson


def same(data: bytes) -> Any:
    return fastjson.loads(data)


def only_maps(data: bytes) -> dict[str, Any]:
    value = fastjson.loads(data)
    if not isinstance(value, dict):
        raise RemoteProtocolError("no map")
    return value


@pytest.fixture
def json_file(tmp_path: Path) -> JsonFile:
    return JsonFile(tmp_path / "config" / "topics.json")


def test_missing_file_is_read_as_empty(json_file: JsonFile) -> None:
    assert json_file.load(same) is None


def test_saved_content_is_loaded(json_file: JsonFile) -> None:
    json_file.save('{\n\t"b":{0:1,3:4\n\t},\n\t"a":true\n}')
    assert json_file.path.read_text() == '{\n\t"b":{0:1,3:4\n\t},\n\t"a":true\n}'
    assert JsonFile(json_file.path).load(same) == {"b": {0: 1, 3: 4}, "a": True}


def test_previous_version_is_kept_as_backup(json_file: JsonFile) -> None:
    json_file.save('{"counter":1}')
    assert not json_file.path.with_name("topics.json.bak").exists()
    json_file.save('{"counter":2}')
    json_file.save('{"counter":3}')
    assert json_file.path.with_name("topics.json.bak").read_text() == '{"counter":2}'
    assert sorted(os.listdir(json_file.path.parent)) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("damaged", [b"", b'{"counter":', b"[1,2]", b"\xff\xfe"])
def test_backup_of_a_damaged_file_is_read(json_file: JsonFile, damaged: bytes) -> None:
    json_file.save('{"counter":1}')
    json_file.save('{"counter":2}')
    json_file.path.write_bytes(damaged)
    assert json_file.load(only_maps) == {"counter": 1}


def test_kill_between_the_renames_leaves_a_complete_file(json_file: JsonFile, monkeypatch: pytest.MonkeyPatch) -> None:
    json_file.save('{"counter":1}')
    json_file.save('{"counter":2}')
    replace = os.replace

    def killed(source: Path, target: Path) -> None:
        if target == json_file.path:
            raise SystemExit
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(SystemExit):
        json_file.save('{"counter":3}')
    monkeypatch.undo()
    assert json_file.load(same) == {"counter": 2}
    json_file.save('{"counter":4}')
    assert json_file.load(same) == {"counter": 4}
    assert json_file.path.with_name("topics.json.bak").read_text() == '{"counter":2}'


def test_start_fails_if_file_and_backup_are_damaged(json_file: JsonFile) -> None:
    json_file.save('{"counter":1}')
    json_file.save('{"counter":2}')
    for name in ("topics.json", "topics.json.bak"):
        json_file.path.with_name(name).write_bytes(b'{"cou')
    with pytest.raises(ConfigFileUnreadable, match=r"topics\.json and topics\.json\.bak are both unreadable") as caught:
        json_file.load(same)
    assert "restore one of them" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_file_without_a_backup_is_not_read_as_empty(json_file: JsonFile) -> None:
    json_file.save('{"counter":1}')
    json_file.path.write_bytes(b'{"cou')
    with pytest.raises(ConfigFileUnreadable):
        json_file.load(same)


def test_failed_write_changes_nothing(json_file: JsonFile, monkeypatch: pytest.MonkeyPatch) -> None:
    json_file.save('{"counter":1}')

    def refuse(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        json_file.save('{"counter":2}')
    monkeypatch.undo()
    assert json_file.load(same) == {"counter": 1}


def test_older_version_does_not_replace_a_newer_one(json_file: JsonFile) -> None:
    older = json_file.next_turn()
    json_file.save('{"counter":2}')
    json_file.write('{"counter":1}', older)
    assert json_file.load(same) == {"counter": 2}


def test_backup_is_a_copy_if_hard_links_are_not_supported(json_file: JsonFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_source: Path, _target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    json_file.save('{"counter":1}')
    json_file.save('{"counter":2}')
    assert json_file.path.with_name("topics.json.bak").read_text() == '{"counter":1}'
