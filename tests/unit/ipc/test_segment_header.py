import pytest

from ipc.errors import LayoutMismatch, SegmentMissing
from ipc.posix import Segment, anonymous_segment
from ipc.segment_header import LAYOUT_VERSION, STORE_HASH, VERSION, check_header, magic_of, store_header

MAGIC = magic_of(b"HRtest")


@pytest.fixture
def segment() -> Segment:
    segment = anonymous_segment(4096)
    store_header(segment, MAGIC, "00c0ffee")
    return segment


def test_magic_is_readable_in_a_hex_dump(segment: Segment) -> None:
    assert bytes(segment.view[:8]) == b"HRtest  "


def test_valid_header_is_accepted(segment: Segment) -> None:
    check_header(segment, MAGIC, "00c0ffee")


def test_segment_without_a_magic_is_still_being_created() -> None:
    with pytest.raises(SegmentMissing, match="not initialized yet"):
        check_header(anonymous_segment(4096), MAGIC, "00c0ffee")


def test_page_of_another_kind_is_refused(segment: Segment) -> None:
    with pytest.raises(LayoutMismatch, match="unexpected type"):
        check_header(segment, magic_of(b"HRother"), "00c0ffee")


def test_other_layout_version_is_refused_naming_both(segment: Segment) -> None:
    segment.words[VERSION] = LAYOUT_VERSION + 1
    with pytest.raises(
        LayoutMismatch, match=f"has layout {LAYOUT_VERSION + 1}, but this program requires layout {LAYOUT_VERSION}"
    ):
        check_header(segment, MAGIC, "00c0ffee")


def test_segment_of_another_store_is_refused(segment: Segment) -> None:
    with pytest.raises(LayoutMismatch, match="belongs to store 00c0ffee, not deadbeef"):
        check_header(segment, MAGIC, "deadbeef")
    assert segment.words[STORE_HASH] == 0xC0FFEE


def test_magic_is_stored_last() -> None:
    stores: list[int] = []

    class Recorder:
        def __setitem__(self, word: int, value: int) -> None:
            stores.append(word)

    segment = anonymous_segment(4096)
    segment.words = Recorder()  # type: ignore[assignment]
    store_header(segment, MAGIC, "00c0ffee")
    assert stores[-1] == 0
