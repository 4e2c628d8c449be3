"""A record by its physical offset, and nothing where none begins."""

from pathlib import Path

from headrace.protocol.record import decode_record
from store.commit_log.reader import CommitLogReader
from store.query.by_offset import view_by_offset
from support.dispatched_store import HandWrittenLog, dispatched_store


def test_a_record_is_found_where_it_begins_and_nowhere_else(tmp_path: Path) -> None:
    with dispatched_store(tmp_path) as store:
        log = HandWrittenLog(store.paths, store.config)
        first, second = log.append(body=b"one"), log.append(body=b"two")
        store.recovered(log.end)
        reader = CommitLogReader(store.paths, store.config, store.control)
        found = view_by_offset(reader, second)
        assert found is not None
        assert decode_record(found).body == b"two"
        assert len(found) == log.end - second
        for offset in [-1, 1, second - 1, second + 4, log.end, log.end + 1000, 1 << 40]:
            assert view_by_offset(reader, offset) is None
        store.min_offset(second)
        assert view_by_offset(reader, first) is None
        reader.close()
