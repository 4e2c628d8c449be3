"""Each publisher stores exactly the cells that the table assigns to it: rule 1 of the architecture."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ipc import control_layout
from ipc.control_block import ControlBlock
from ipc.control_layout import CELLS, LOG_WRITER
from ipc.posix import anonymous_segment
from ipc.publish.broker import BrokerPublisher
from ipc.publish.dispatch import DispatchPublisher
from ipc.publish.flush import FlushPublisher
from ipc.publish.ha import HaPublisher
from ipc.publish.housekeeper import HousekeeperPublisher
from ipc.publish.log import LogPublisher
from ipc.publish.recover import RecoverPublisher
from support.interpreted import run_interpreted

PUBLISHERS: dict[str, type] = {
    LOG_WRITER: LogPublisher,
    "flush": FlushPublisher,
    "dispatch": DispatchPublisher,
    "housekeeper": HousekeeperPublisher,
    "ha": HaPublisher,
    "broker": BrokerPublisher,
}
UNTOUCHED = -(1 << 62)


@pytest.fixture
def block() -> Iterator[ControlBlock]:
    segment = anonymous_segment(control_layout.SIZE_BYTES)
    yield ControlBlock(segment)
    segment.close()


def methods_of(publisher: object) -> list[Callable[..., Any]]:
    return [method for name, method in inspect.getmembers(publisher, inspect.ismethod) if not name.startswith("_")]


def call(method: Callable[..., Any]) -> None:
    method(*range(1, len(inspect.signature(method).parameters) + 1))


@pytest.mark.parametrize("writer", PUBLISHERS)
def test_publisher_stores_exactly_the_cells_of_its_writer(writer: str, block: ControlBlock) -> None:
    for cell in CELLS:
        block.words[cell.word] = UNTOUCHED
    for method in methods_of(PUBLISHERS[writer](block)):
        call(method)
    touched = {cell.name for cell in CELLS if block.words[cell.word] != UNTOUCHED}
    # The `asleep` cell of a role is stored by its bell.
    assert touched == {cell.name for cell in CELLS if cell.writer == writer and not cell.name.startswith("asleep_")}


def test_every_writer_in_the_table_has_a_publisher() -> None:
    assert {cell.writer for cell in CELLS} == set(PUBLISHERS)


def stores_in_order(_: bytes) -> bytes:
    """The words that publishers store, in order, with interpreted modules."""
    stores: list[int] = []
    block = ControlBlock(anonymous_segment(control_layout.SIZE_BYTES))

    class Recorder:
        readonly = False

        def __setitem__(self, word: int, value: int) -> None:
            stores.append(word)

    block.words = Recorder()  # type: ignore[assignment]
    LogPublisher(block).wrote(10, 20)
    FlushPublisher(block).flushed(10, 20)
    DispatchPublisher(block).reput(10, 20, 30)
    return bytes(stores)


def test_end_of_the_log_is_published_before_its_timestamp() -> None:
    # A reader that loads the timestamp, then the offset, must never see the timestamp of a record beyond that offset. The compiled form has the
    # same source.
    assert list(run_interpreted("unit.ipc.test_publishers", "stores_in_order", b"")) == [
        control_layout.WROTE_OFFSET,
        control_layout.WROTE_TIMESTAMP,
        control_layout.FLUSHED_OFFSET,
        control_layout.FLUSHED_TIMESTAMP,
        control_layout.REPUT_OFFSET,
        control_layout.REPUT_TIMESTAMP,
        control_layout.INDEX_TIMESTAMP,
    ]


def test_values_are_published_as_given(block: ControlBlock) -> None:
    log = LogPublisher(block)
    log.append_limit(5_000_000_000)
    log.wrote(4_999_999_999, 1_700_000_000_123)
    log.requested(1 << 30)
    assert (block.append_limit, block.wrote_offset, block.wrote_timestamp) == (
        5_000_000_000,
        4_999_999_999,
        1_700_000_000_123,
    )
    assert block.requested_offset == 1 << 30
    housekeeper = HousekeeperPublisher(block)
    housekeeper.disk_full(True)
    assert block.flag_disk_full == 1
    housekeeper.disk_full(False)
    assert block.flag_disk_full == 0


def test_operator_request_increments_its_cell(block: ControlBlock) -> None:
    broker = BrokerPublisher(block)
    assert [broker.delete_expired_requests(), broker.delete_expired_requests()] == [1, 2]
    assert block.delete_expired_requests == 2
    assert broker.clean_topics_requests() == block.clean_topics_requests == 1
    assert broker.config_version() == block.config_version == 1


def test_recovery_initialises_every_cell(block: ControlBlock) -> None:
    for cell in CELLS:
        block.words[cell.word] = UNTOUCHED
    RecoverPublisher(block).first_values(
        min_offset=1,
        wrote_offset=50,
        allocated_offset=100,
        reput_offset=40,
        wrote_timestamp=7,
        reput_timestamp=6,
        index_timestamp=5,
    )
    expected = {cell.name: 0 for cell in CELLS} | {
        "min_offset": 1,
        "requested_offset": -1,
        "allocated_offset": 100,
        "append_limit": 50,
        "wrote_offset": 50,
        "wrote_timestamp": 7,
        "flushed_offset": 50,
        "flushed_timestamp": 7,
        "reput_offset": 40,
        "reput_timestamp": 6,
        "index_timestamp": 5,
    }
    assert block.read() == expected
