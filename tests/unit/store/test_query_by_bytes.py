"""Searching the log for what a broker wrote before it died."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.commit_log.reader import CommitLogReader
from store.paths import StorePaths
from store.query import by_bytes
from store.query.by_bytes import search
from support.damage import damage
from support.dispatched_store import SMALL, HandWrittenLog

FILE_SIZE = SMALL.mapped_file_size_commit_log
MARK = b"MARK\x01"


class Offsets:
    """What is published of the log."""

    min_offset = 0
    wrote_offset = 0


class Searched:
    """Some files of records, of which every third has the mark."""

    def __init__(self, root: Path) -> None:
        self.paths = StorePaths(root)
        self.paths.make_directories()
        log = HandWrittenLog(self.paths, SMALL)
        self.places = [
            log.append(body=bytes(500), properties="MARK\x01yes" if number % 3 == 0 else "") for number in range(300)
        ]
        assert log.end > 2 * FILE_SIZE
        self.offsets = Offsets()
        self.offsets.wrote_offset = log.end
        self.reader = CommitLogReader(self.paths, SMALL, self.offsets)

    def found(self) -> list[int]:
        steps = search(MARK, 0, self.offsets.wrote_offset, FILE_SIZE, self.reader.read_on)
        return [record.physical_offset for records in steps for record in records]


@pytest.fixture
def searched(tmp_path: Path) -> Iterator[Searched]:
    made = Searched(tmp_path)
    yield made
    made.reader.close()


@pytest.mark.parametrize("stretch", [700, 5000, 1 << 20])
def test_search_finds_all_marked_records(searched: Searched, stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_bytes, "_STRETCH", stretch)
    assert searched.found() == searched.places[::3]


@pytest.mark.parametrize("stretch", [700, 5000, 1 << 20])
@pytest.mark.parametrize("length", [1, 90, 4096])
def test_search_continues_at_the_next_intact_record_after_damage(
    searched: Searched, stretch: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_bytes, "_STRETCH", stretch)
    start = searched.places[30] + 3  # the size's last byte
    damage(searched.paths.commit_log, FILE_SIZE, start, length)
    hit = {place for place in searched.places if place <= start + length - 1 and start < place + 600}
    assert searched.found() == [place for place in searched.places[::3] if place not in hit]


def test_search_reaches_the_next_file_when_the_rest_of_one_is_damaged(searched: Searched) -> None:
    start = searched.places[30]
    damage(searched.paths.commit_log, FILE_SIZE, start, FILE_SIZE - start)
    assert searched.found() == [place for place in searched.places[::3] if place < start or place >= FILE_SIZE]
