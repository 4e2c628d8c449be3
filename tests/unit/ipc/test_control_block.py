import pytest

from ipc import control_layout
from ipc.control_block import ControlBlock
from ipc.control_layout import CELLS
from ipc.names import BELL_ROLES
from ipc.posix import Segment, anonymous_segment


@pytest.fixture
def segment() -> Segment:
    return anonymous_segment(control_layout.SIZE_BYTES)


def test_every_cell_has_its_own_cache_line() -> None:
    lines = [cell.word * 8 // 64 for cell in CELLS]
    assert len(set(lines)) == len(CELLS)
    assert all(cell.word % 8 == 0 for cell in CELLS)
    assert 0 not in lines  # the header's
    assert (max(lines) + 1) * 64 == control_layout.SIZE_BYTES


def test_every_cell_has_a_property_that_reads_its_word(segment: Segment) -> None:
    block = ControlBlock(segment)
    for value, cell in enumerate(CELLS, 100):
        segment.words[cell.word] = value
    for value, cell in enumerate(CELLS, 100):
        assert getattr(block, cell.name) == value
    assert block.read() == {cell.name: value for value, cell in enumerate(CELLS, 100)}


def test_every_cell_has_a_constant() -> None:
    for cell in CELLS:
        if cell.name.startswith("asleep_"):
            assert control_layout.ASLEEP[cell.name.removeprefix("asleep_")] == cell.word
        else:
            assert getattr(control_layout, cell.name.upper()) == cell.word


def test_every_role_with_a_bell_has_an_asleep_cell() -> None:
    assert {cell.writer for cell in CELLS if cell.name.startswith("asleep_")} == set(BELL_ROLES)


def test_reader_cannot_store_cells(segment: Segment) -> None:
    block = ControlBlock(segment)
    with pytest.raises(AttributeError):
        block.wrote_offset = 1


@pytest.mark.parametrize(
    ("cell", "bit"),
    [
        ("flag_log_error", 2),
        ("flag_queue_error", 4),
        ("flag_index_error", 8),
        ("flag_disk_full", 16),
    ],
)
def test_each_flag_cell_is_a_bit_of_the_running_flags(segment: Segment, cell: str, bit: int) -> None:
    block = ControlBlock(segment)
    assert block.running_flags() == 0
    segment.words[getattr(control_layout, cell.upper())] = 1
    assert block.running_flags() == bit


def test_running_flags_are_the_union_of_all_writers_flags(segment: Segment) -> None:
    for cell in CELLS:
        if cell.name.startswith("flag_"):
            segment.words[cell.word] = 1
    assert ControlBlock(segment).running_flags() == 30


def test_dispatch_limit_is_the_written_offset(segment: Segment) -> None:
    segment.words[control_layout.WROTE_OFFSET] = 1 << 40
    assert ControlBlock(segment).confirm_offset() == 1 << 40


def test_cells_of_the_class_are_properties() -> None:
    assert not isinstance(ControlBlock.wrote_offset, int)


def test_dependent_offset_is_loaded_first(segment: Segment) -> None:
    class Moving:
        """Words that grow each time they are read."""

        looks = 0

        def __getitem__(self, word: int) -> int:
            self.looks += 1
            return self.looks

    block = ControlBlock(segment)
    block.words = Moving()
    cells = block.read()
    for first, second in (
        ("min_offset", "wrote_offset"),
        ("flushed_offset", "wrote_offset"),
        ("reput_offset", "wrote_offset"),
        ("push2slave_max_offset", "wrote_offset"),
        ("wrote_offset", "append_limit"),
        ("append_limit", "allocated_offset"),
        ("delete_expired_handled", "delete_expired_requests"),
        ("clean_topics_handled", "clean_topics_requests"),
    ):
        assert cells[first] < cells[second]
