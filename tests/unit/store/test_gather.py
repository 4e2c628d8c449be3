"""Gathering the records of a pull: which entries are taken, and where it stops."""

import struct
from collections.abc import Sequence

import pytest

from headrace.model.java_hash import tags_code
from headrace.protocol.consume_queue_layout import ENTRY, ENTRY_SIZE, EXT_ADDRESS_BASE, FILLER
from headrace.protocol.record import decode_records, encode_record
from store.query.gather import Gatherer

FILE_SIZE = 1 << 16
A, B = tags_code("a"), tags_code("b")
NO_LIMIT = 1 << 40
OTHERS = ENTRY.pack(0, 1, A) * 2


class Log:
    """CommitLog files in memory, and the entries of one queue that lead to their records."""

    def __init__(self) -> None:
        self.files: dict[int, bytearray] = {}
        self.end = 0
        self.entries = b""
        self.asked: list[int] = []

    def put(self, body: bytes, tag: str = "", code: int | None = None) -> int:
        """A record and its entry; returns the record's size."""
        record = encode_record(
            topic="T", body=body, physical_offset=self.end, queue_offset=len(self.entries) // ENTRY_SIZE
        )
        start = self.end - self.end % FILE_SIZE
        if self.end - start + len(record) + 8 > FILE_SIZE:
            self.end = start + FILE_SIZE
            return self.put(body, tag, code)
        self.files.setdefault(start, bytearray(FILE_SIZE))[self.end - start : self.end - start + len(record)] = record
        self.entries += ENTRY.pack(self.end, len(record), tags_code(tag) if code is None else code)
        self.end += len(record)
        return len(record)

    def file_for(self, offset: int) -> memoryview | None:
        self.asked.append(offset)
        file = self.files.get(offset - offset % FILE_SIZE)
        return None if file is None else memoryview(file)

    def gather(
        self,
        codes: set[int] | None = None,
        count: int = 100,
        *,
        entries: bytes | None = None,
        recent_from: int = 0,
        limits: Sequence[int] = (NO_LIMIT, 1000, NO_LIMIT, 1000),
        wrote_offset: int | None = None,
    ) -> Gatherer:
        gatherer = Gatherer(self.file_for, FILE_SIZE)
        end = self.end if wrote_offset is None else wrote_offset
        asked = entries or self.entries
        # Others before and after them, which must not be read.
        view = memoryview(b"".join([OTHERS, asked, OTHERS]))
        gatherer.gather(view, len(OTHERS), len(OTHERS) + len(asked), codes, count, end, recent_from, *limits)
        return gatherer


@pytest.mark.parametrize(("begin", "end"), [(-20, 20), (0, 41), (0, 1 << 40)])
def test_entries_outside_the_view_are_never_read(begin: int, end: int) -> None:
    log = Log()
    with pytest.raises(IndexError):
        Gatherer(log.file_for, FILE_SIZE).gather(memoryview(bytes(40)), begin, end, None, 100, 1 << 20, 0, 1, 1, 1, 1)
    assert log.asked == []


def bodies(gatherer: Gatherer) -> list[bytes]:
    records = decode_records(gatherer.body())
    assert len(records) == gatherer.count
    assert len(gatherer.body()) == gatherer.length
    return [record.body for record in records]


@pytest.fixture
def log() -> Log:
    made = Log()
    for tag in "abac":
        made.put(tag.encode(), tag)
    return made


def test_records_are_copied_unchanged_one_after_another(log: Log) -> None:
    gatherer = log.gather()
    assert gatherer.body() == bytes(log.files[0][: log.end])
    assert (gatherer.count, gatherer.examined, gatherer.removing) == (4, 4, False)
    assert gatherer.last_physical_offset == ENTRY.unpack_from(log.entries, 3 * ENTRY_SIZE)[0]


@pytest.mark.parametrize(
    ("codes", "wanted", "examined"),
    [({A}, [b"a", b"a"], 4), ({A, B}, [b"a", b"b", b"a"], 4), ({12345}, [], 4), (set(), [], 4)],
)
def test_only_selected_tags_are_copied_and_all_entries_are_examined(
    log: Log, codes: set[int], wanted: list[bytes], examined: int
) -> None:
    gatherer = log.gather(codes)
    assert bodies(gatherer) == wanted
    assert gatherer.examined == examined


def test_tags_match_by_the_lower_half_of_their_code() -> None:
    log = Log()
    negative = tags_code("polygenelubricants")
    assert negative < 0
    log.put(b"negative", code=negative)
    log.put(b"delivery time", code=(5 << 32) | (negative & 0xFFFFFFFF))
    assert bodies(log.gather({negative})) == [b"negative", b"delivery time"]


def test_entry_with_an_extended_unit_is_left_to_the_consumer() -> None:
    log = Log()
    log.put(b"plain", "b")
    log.put(b"extended", code=EXT_ADDRESS_BASE + 40)
    assert bodies(log.gather({A})) == [b"extended"]


@pytest.mark.parametrize(("count", "taken"), [(2, 2), (1, 1), (0, 1), (4, 4), (5, 4)])
def test_at_least_one_and_at_most_the_requested_number_are_copied(log: Log, count: int, taken: int) -> None:
    gatherer = log.gather(count=count)
    assert (gatherer.count, gatherer.examined) == (taken, taken)


def test_limits_apply_after_the_first_record() -> None:
    log = Log()
    sizes = [log.put(bytes(1000)) for _ in range(6)]
    assert log.gather(limits=(1, 1000, NO_LIMIT, 1000)).count == 1
    assert log.gather(limits=(sum(sizes[:3]), 1000, NO_LIMIT, 1000)).count == 3
    assert log.gather(limits=(sum(sizes[:3]) - 1, 1000, NO_LIMIT, 1000)).count == 2
    assert log.gather(limits=(NO_LIMIT, 4, NO_LIMIT, 1000)).count == 4


def test_records_far_behind_have_separate_limits() -> None:
    log = Log()
    for _ in range(6):
        size = log.put(bytes(1000))
    far, near = (NO_LIMIT, 5, NO_LIMIT, 2), (NO_LIMIT, 2, NO_LIMIT, 5)
    assert log.gather(recent_from=log.end, limits=far).count == 2
    assert log.gather(recent_from=log.end, limits=near).count == 5
    assert log.gather(recent_from=0, limits=far).count == 5
    # The first three are far: the fourth is near, and by its limit there are too many already.
    assert log.gather(recent_from=3 * size, limits=near).count == 3


def test_unpublished_records_are_not_copied(log: Log) -> None:
    offset = ENTRY.unpack_from(log.entries, 2 * ENTRY_SIZE)[0]
    assert bodies(log.gather(wrote_offset=offset)) == [b"a", b"b"]


def test_gather_continues_across_files() -> None:
    log = Log()
    for number in range(5):
        log.put(bytes([number]) * 30_000)
    gatherer = log.gather()
    assert [body[0] for body in bodies(gatherer)] == [0, 1, 2, 3, 4]
    assert len(log.files) == 3


def test_deleted_file_is_skipped_as_a_whole() -> None:
    log = Log()
    for number in range(5):
        log.put(bytes([number]) * 30_000)
    del log.files[0]
    gatherer = log.gather()
    assert [body[0] for body in bodies(gatherer)] == [2, 3, 4]
    assert gatherer.removing
    assert gatherer.examined == 5
    assert log.asked.count(0) == 1
    assert all(offset == 0 or offset >= FILE_SIZE for offset in log.asked)


def test_fillers_are_skipped(log: Log) -> None:
    gatherer = log.gather(entries=FILLER * 3)
    assert (gatherer.count, gatherer.examined, gatherer.removing) == (0, 3, True)
    assert gatherer.unreadable == []


@pytest.mark.parametrize("place", [0, 4, 28], ids=["size", "magic", "physical offset"])
def test_record_that_does_not_match_its_entry_is_skipped(log: Log, place: int) -> None:
    second = ENTRY.unpack_from(log.entries, ENTRY_SIZE)[0]
    log.files[0][second + place] ^= 1
    gatherer = log.gather()
    assert bodies(gatherer) == [b"a", b"a", b"c"]
    assert gatherer.removing
    assert gatherer.unreadable == [(1, second)]


def test_damage_affects_only_the_damaged_records() -> None:
    log = Log()
    for number in range(40):
        log.put(bytes([number]) * 1000)
    places = [ENTRY.unpack_from(log.entries, number * ENTRY_SIZE)[0] for number in range(40)]
    start = places[10] + 500
    log.files[0][start : start + 4096] = bytes(4096)
    gatherer = log.gather()
    hit = [10, 11, 12, 13, 14]
    assert places[10] < start < places[11]
    assert places[14] < start + 4096 < places[15]
    assert [record.queue_offset for record in decode_records(gatherer.body())] == [
        number for number in range(40) if number not in hit
    ]
    assert gatherer.unreadable == [(number, places[number]) for number in hit]
    assert gatherer.examined == 40


def test_record_with_inconsistent_lengths_is_unreadable(log: Log) -> None:
    second = ENTRY.unpack_from(log.entries, ENTRY_SIZE)[0]
    log.files[0][second + 84 + 3] ^= 0x40  # the body's length: a client could not tell where the next record begins
    assert bodies(log.gather()) == [b"a", b"a", b"c"]


@pytest.mark.parametrize("entry", [(-5, 100), (1 << 40, 100), (0, -1), (0, 0), (2**63 - 1, 2**31 - 1)])
def test_damaged_entry_affects_no_other_entry(log: Log, entry: tuple[int, int]) -> None:
    entries = bytearray(log.entries)
    entries[ENTRY_SIZE : 2 * ENTRY_SIZE] = ENTRY.pack(*entry, 0)
    gatherer = log.gather(entries=bytes(entries))
    assert bodies(gatherer) == [b"a", b"a", b"c"]
    assert gatherer.unreadable == [(1, entry[0])]


def test_release_unmaps_the_file_read_last(log: Log) -> None:
    gatherer = log.gather()
    with pytest.raises(BufferError):
        log.files[0].clear()
    gatherer.release()
    log.files[0].clear()


@pytest.mark.parametrize("entry", [(-5, 100, 0), (FILE_SIZE - 20, 100, 0), (0, 50, 0), (0, -1, 0), (0, 0, 0)])
def test_invalid_entry_copies_nothing(log: Log, entry: tuple[int, int, int]) -> None:
    gatherer = log.gather(entries=struct.pack(">qiq", *entry), wrote_offset=NO_LIMIT)
    assert (gatherer.count, gatherer.body()) == (0, b"")


def test_buffer_grows_for_a_large_record_and_is_reused() -> None:
    log = Log()
    log.put(b"small")
    log.put(bytes(60_000))
    log.put(bytes(60_000))
    gatherer = log.gather()
    assert [len(body) for body in bodies(gatherer)] == [5, 60_000, 60_000]
    gatherer.gather(memoryview(log.entries), 0, ENTRY_SIZE, None, 1, log.end, 0, NO_LIMIT, 10, NO_LIMIT, 10)
    assert bodies(gatherer) == [b"small"]


def test_hundreds_of_records_of_several_files_are_copied_in_order() -> None:
    log = Log()
    for number in range(300):
        log.put(b"%d " % number * 100)
    assert len(log.files) > 1
    gatherer = log.gather(count=1000)
    assert [body.split()[0] for body in bodies(gatherer)] == [b"%d" % number for number in range(300)]
    head = b"{}"
    assert (
        gatherer.frame(head) == struct.pack(">ii", 4 + len(head) + gatherer.length, len(head)) + head + gatherer.body()
    )


def test_nothing_is_left_of_a_pull_after_its_files_are_released(log: Log) -> None:
    gatherer = log.gather()
    gatherer.release()
    assert (gatherer.count, gatherer.length, gatherer.body()) == (0, 0, b"")
