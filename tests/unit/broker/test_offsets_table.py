"""Consumer offsets: taken as they come, written when they have changed, in Apache's form."""

import asyncio
from pathlib import Path

import pytest

from broker.clients.offsets import OffsetTable
from broker.errors import ConfigFileUnreadable
from broker.json_file import JsonFile
from headrace.protocol import fastjson
from support import golden


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "consumerOffset.json"


def table(path: Path) -> OffsetTable:
    return OffsetTable(JsonFile(path))


def test_missing_offset_is_minus_one(path: Path) -> None:
    offsets = table(path)
    assert offsets.query("g", "T", 0) == -1
    offsets.commit("g", "T", 0, 5)
    assert (offsets.query("g", "T", 0), offsets.query("g", "T", 1)) == (5, -1)
    assert (offsets.query("g", "U", 0), offsets.query("h", "T", 0)) == (-1, -1)


def test_offset_may_decrease(path: Path) -> None:
    offsets = table(path)
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "T", 0, 2)
    assert offsets.query("g", "T", 0) == 2


def test_offsets_are_found_by_group_and_by_topic(path: Path) -> None:
    offsets = table(path)
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "U", 1, 6)
    offsets.commit("h", "T", 2, 7)
    assert offsets.by_topic("g") == {"T": {0: 5}, "U": {1: 6}}
    assert offsets.groups_of("T") == {"g", "h"}
    assert offsets.queues("h", "T") == {2: 7}


def test_offsets_of_a_removed_group_are_removed(path: Path) -> None:
    offsets = table(path)
    offsets.commit("g", "T", 0, 5)
    offsets.commit("h", "T", 0, 6)
    assert offsets.remove_group("g")
    assert not offsets.remove_group("g")
    assert offsets.groups_of("T") == {"h"}


def test_offsets_of_a_deleted_topic_are_removed_from_all_groups(path: Path) -> None:
    offsets = table(path)
    for group in ("g", "h"):
        offsets.commit(group, "T", 0, 5)
        offsets.commit(group, "U", 0, 6)
    offsets.persist()
    offsets.remove_topic("T")
    offsets.persist()
    found = table(path)
    assert found.groups_of("T") == set()
    assert found.groups_of("U") == {"g", "h"}


def test_cloned_group_has_exactly_the_queues_of_its_source(path: Path) -> None:
    offsets = table(path)
    offsets.commit("a", "T", 0, 5)
    offsets.commit("b", "T", 3, 9)
    offsets.clone("a", "b", "T")
    offsets.commit("a", "T", 0, 6)
    assert offsets.by_topic("b") == {"T": {0: 5}}


@pytest.mark.parametrize("store", ["kinds", "plain"])
def test_apaches_file_is_read_and_written_back_byte_for_byte(store: str, tmp_path: Path) -> None:
    path = golden.unpack(store, tmp_path) / "config" / "consumerOffset.json"
    before = path.read_text()
    offsets = table(path)
    offsets.commit("new", "T", 0, 1)
    offsets.remove_group("new")
    offsets.persist()
    after = path.read_text()
    assert fastjson.loads(after) == fastjson.loads(before)
    assert sorted(line.rstrip(",") for line in after.splitlines()) == sorted(
        line.rstrip(",") for line in before.splitlines()
    )


def test_fast_writer_equals_the_fastjson_encoder(path: Path) -> None:
    offsets = table(path)
    offsets.commit('g"\u2028ü', "%RETRY%x", 3, 9223372036854775807)
    offsets.commit("g@h", "T", 0, 1)
    offsets.commit("g@h", "T", 1, 0)
    offsets.clone("nobody", "empty", "T")
    offsets.persist()
    assert path.read_text() == fastjson.dumps_pretty(offsets.to_json())
    assert offsets.wire_text() == fastjson.dumps(offsets.to_json())
    assert table(path).to_json() == offsets.to_json()


def test_file_is_not_written_without_changes(path: Path) -> None:
    offsets = table(path)
    offsets.persist()
    assert not path.exists()
    offsets.commit("g", "T", 0, 5)
    offsets.persist()
    written = path.stat().st_ino
    offsets.persist()
    assert path.stat().st_ino == written


def test_background_write_stores_a_consistent_snapshot(path: Path) -> None:
    offsets = table(path)

    async def run() -> None:
        offsets.commit("g", "T", 0, 5)
        writing = asyncio.create_task(offsets.persist_apart())
        await asyncio.sleep(0)
        offsets.commit("g", "T", 0, 6)
        await writing

    asyncio.run(run())
    assert table(path).query("g", "T", 0) in (5, 6)
    offsets.persist()
    assert table(path).query("g", "T", 0) == 6


def test_failed_write_is_retried(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    json_file = JsonFile(path)
    offsets = OffsetTable(json_file)
    offsets.commit("g", "T", 0, 5)

    def refuse(_text: str, _turn: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json_file, "write", refuse)
    with pytest.raises(OSError, match="No space"):
        offsets.persist()
    monkeypatch.undo()
    offsets.persist()
    assert table(path).query("g", "T", 0) == 5


def test_offsets_are_persisted_periodically_until_stopped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    json_file = JsonFile(path)
    offsets = OffsetTable(json_file)

    async def run() -> None:
        loop, written = asyncio.get_running_loop(), asyncio.Event()
        write = json_file.write

        def tell(text: str, turn: int) -> None:
            write(text, turn)
            loop.call_soon_threadsafe(written.set)

        monkeypatch.setattr(json_file, "write", tell)
        keeping = asyncio.create_task(offsets.keep(0.001))
        offsets.commit("g", "T", 0, 5)
        await asyncio.wait_for(written.wait(), 60)
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping

    asyncio.run(run())
    assert table(path).query("g", "T", 0) == 5


@pytest.mark.parametrize("text", ["[]", "{}", '{"offsetTable":{"T":{0:1}}}', '{"offsetTable":{"T@g":{0:"x"}}}'])
def test_start_fails_on_an_invalid_offsets_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ConfigFileUnreadable):
        table(path)


def test_quoted_queue_ids_are_accepted(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text('{"offsetTable":{"T@g":{"0":7,"1":"8"}}}')
    assert table(path).by_topic("g") == {"T": {0: 7, 1: 8}}
