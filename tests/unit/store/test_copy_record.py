"""CommitLogReader.copy_record returns a record by its physical offset, and None where none begins."""

from pathlib import Path

from headrace.protocol.record import decode_record
from store.commit_log.reader import CommitLogReader
from support.dispatched_store import HandWrittenLog, dispatched_store


def test_copy_record_returns_a_record_only_at_its_first_byte(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        first, second = log.append(body=b"one"), log.append(body=b"two")
        store.recovered(log.end)
        reader = CommitLogReader(store.paths, store.config, store.control)
        found = reader.copy_record(second)
        assert found is not None
        assert decode_record(found).body == b"two"
        assert len(found) == log.end - second
        for offset in [-1, 1, second - 1, second + 4, log.end, log.end + 1000, 1 << 40]:
            assert reader.copy_record(offset) is None
        store.min_offset(second)
        assert reader.copy_record(first) is None
        reader.close()
