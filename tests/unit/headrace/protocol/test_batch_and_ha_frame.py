import pytest

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.model import Message
from headrace.protocol.batch import decode_batch, encode_batch
from headrace.protocol.ha_frame import (
    MAX_FRAME_SIZE,
    HaFrame,
    HaFrameDecoder,
    ReportDecoder,
    encode_head,
    encode_report,
)

BATCH = bytes.fromhex(
    "0000002b000000000000000000000000000000026231001354414753015431" + "02554e49515f4b4559015531"
    "0000001800000000000000000000000000000002" + "62320000"
)


def test_batch_has_rocketmqs_layout() -> None:
    assert (
        encode_batch([Message("T", b"b1", properties={"TAGS": "T1", "UNIQ_KEY": "U1"}), Message("T", b"b2")]) == BATCH
    )
    assert len(BATCH) == 67


def test_batch_is_decoded_message_by_message() -> None:
    first, second = decode_batch(BATCH)
    assert (first.flag, first.body, first.properties) == (0, b"b1", {"TAGS": "T1", "UNIQ_KEY": "U1"})
    assert (second.body, second.properties_raw, second.properties) == (b"b2", b"", {})
    assert decode_batch(b"") == []


@pytest.mark.parametrize("cut", [1, 19, 20, 22, 30, 50])
def test_truncated_batch_is_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_batch(BATCH[:cut])


def test_size_field_of_a_batch_entry_is_ignored() -> None:
    assert decode_batch(b"\xff\xff\xff\xff" + BATCH[4:]) == decode_batch(BATCH)


def test_properties_too_large_for_a_batch_are_refused() -> None:
    with pytest.raises(LocalProtocolError):
        encode_batch([Message("T", b"", properties={"a": "b" * 40_000})])


def test_last_of_several_ha_reports_is_used() -> None:
    decoder = ReportDecoder()
    data = encode_report(5) + encode_report(7) + encode_report(9)
    assert decoder.feed(data[:3]) is None
    assert decoder.feed(data[3:20]) == 7
    assert decoder.feed(data[20:]) == 9
    assert decoder.feed(b"") is None


def test_ha_frames_are_decoded_however_they_are_split() -> None:
    frames = [HaFrame(0, b"abc"), HaFrame(3, b""), HaFrame(3, b"x" * 1000)]
    data = b"".join(encode_head(one.physical_offset, len(one.data)) + one.data for one in frames)
    for size in (1, 5, 12, 500, len(data)):
        decoder = HaFrameDecoder()
        assert [one for at in range(0, len(data), size) for one in decoder.feed(data[at : at + size])] == frames


@pytest.mark.parametrize("length", [-1, MAX_FRAME_SIZE + 1])
def test_invalid_length_ends_replication(length: int) -> None:
    with pytest.raises(RemoteProtocolError):
        HaFrameDecoder().feed(encode_head(0, length))
