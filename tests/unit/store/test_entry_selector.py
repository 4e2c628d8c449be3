"""The entries that a filter lets pass, and how far a pull has come by them."""

import pytest

from headrace.protocol.consume_queue_layout import ENTRY, EXT_ADDRESS_BASE
from headrace.protocol.record import encode_record
from store.consume_queue.ext_reader import ExtUnit
from store.filter.bloom import BloomFilter
from store.filter.entry_selector import EntrySelector
from store.filter.message_filter import ExpressionFilter
from store.filter.program import Program
from store.filter.pull_limits import PullLimits
from store.filter.sql_compile import compile_expression

FILE_SIZE = 1 << 16
MANY = PullLimits(32, 0, 1 << 18, 32, 1 << 16, 8)


class Log:
    """Records of queue offsets 0, 1, 2 … with the property `n`, one after the other, in files of 64 KiB."""

    def __init__(self, count: int, body: bytes = b"") -> None:
        self.data = bytearray()
        self.entries: list[bytes] = []
        for number in range(count):
            at = len(self.data)
            record = encode_record(topic="T", body=body, properties=f"n\x01{number}", physical_offset=at)
            self.entries.append(ENTRY.pack(at, len(record), EXT_ADDRESS_BASE + number))
            self.data += record
        assert len(self.data) < FILE_SIZE
        self.end = len(self.data)
        self.data += bytes(FILE_SIZE - self.end)
        self.gone = False
        self.unreadable: list[tuple[int, int]] = []

    def view_around(self, physical_offset: int) -> memoryview | None:
        return None if self.gone or physical_offset >= FILE_SIZE else memoryview(self.data)

    def select(
        self, expression: str, limits: PullLimits = MANY, wrote_offset: int | None = None
    ) -> tuple[list[int], int]:
        selector = EntrySelector(self.view_around, FILE_SIZE)
        entries = memoryview(b"".join(self.entries))
        end = self.end if wrote_offset is None else wrote_offset
        selected, examined = selector.select(entries, filter_of(expression), no_unit, limits, end)
        self.unreadable = selector.unreadable
        return numbers_of(selected), examined


def numbers_of(selected: bytes) -> list[int]:
    return [code - EXT_ADDRESS_BASE for _, _, code in ENTRY.iter_unpack(selected)]


def filter_of(expression: str) -> ExpressionFilter:
    program = compile_expression(expression)
    assert isinstance(program, Program)
    return ExpressionFilter(program)


def no_unit(_address: int) -> ExtUnit | None:
    raise AssertionError("a filter without bits reads no units")


def test_messages_for_which_the_expression_is_true_are_selected() -> None:
    assert Log(10).select("n BETWEEN 3 AND 5 OR n = 9") == ([3, 4, 5, 9], 10)
    assert Log(10).select("n > 10") == ([], 10)
    assert Log(0).select("n > 10") == ([], 0)


@pytest.mark.parametrize(
    ("max_count", "chosen", "examined"), [(2, [0, 2], 3), (1, [0], 1), (0, [0], 1), (5, [0, 2, 4, 6, 8], 9)]
)
def test_selection_ends_after_the_last_allowed_message(max_count: int, chosen: list[int], examined: int) -> None:
    limits = PullLimits(max_count, 0, 1 << 18, 32, 1 << 16, 8)
    assert Log(9).select("n = 0 OR n = 2 OR n = 4 OR n = 6 OR n = 8", limits) == (chosen, examined)


def test_selection_ends_at_the_byte_limit() -> None:
    log = Log(9, bytes(900))
    size = ENTRY.unpack(log.entries[0])[1]
    assert log.select("n > 2", PullLimits(32, 0, 3 * size, 32, size, 8)) == ([3, 4, 5], 6)
    assert log.select("n > 2", PullLimits(32, FILE_SIZE, 3 * size, 32, 2 * size, 8)) == ([3, 4], 5)
    assert log.select("n > 2", PullLimits(32, FILE_SIZE, 1 << 18, 32, 1 << 18, 2)) == ([3, 4], 5)


def test_records_of_a_deleted_file_are_passed_to_the_gatherer_once_per_file() -> None:
    log = Log(9)
    log.gone = True
    assert log.select("n > 2") == ([0], 9)


def test_selection_skips_only_unreadable_records() -> None:
    log = Log(9, bytes(900))
    log.data[ENTRY.unpack(log.entries[4])[0] : ENTRY.unpack(log.entries[6])[0] + 4] = bytes(
        ENTRY.unpack(log.entries[6])[0] + 4 - ENTRY.unpack(log.entries[4])[0]
    )
    assert log.select("n > 2") == ([3, 7, 8], 9)
    assert log.unreadable == [(number, ENTRY.unpack(log.entries[number])[0]) for number in (4, 5, 6)]


def test_unpublished_entries_are_not_examined() -> None:
    log = Log(9)
    assert log.select("n > 2", wrote_offset=ENTRY.unpack(log.entries[5])[0]) == ([3, 4], 9)


def test_records_excluded_by_a_bit_map_are_not_read() -> None:
    log, bloom = Log(4), BloomFilter()
    bits = bloom.data_of("group", "T")
    units = {
        0: ExtUnit(34, 0, 2000, bytes(14)),  # certainly not wanted
        1: ExtUnit(34, 0, 2000, bloom.map_of([bits])),  # perhaps wanted
        2: ExtUnit(34, 0, 1000, bytes(14)),  # stored before the filter was born: the map says nothing
        3: ExtUnit(20, 0, 2000, b""),  # no map
    }
    wanted = ExpressionFilter(filter_of("n >= 0").program, bits, 1000)
    selector = EntrySelector(log.view_around, FILE_SIZE)
    entries = memoryview(b"".join(log.entries))
    selected, _ = selector.select(entries, wanted, lambda address: units[address - EXT_ADDRESS_BASE], MANY, log.end)
    assert numbers_of(selected) == [1, 2, 3]
    assert numbers_of(selector.select(entries, wanted, lambda _: None, MANY, log.end)[0]) == [0, 1, 2, 3]
