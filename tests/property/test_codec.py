"""Round trips, arbitrary splits and arbitrary bytes for the protocol codec."""

import itertools
import zlib
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.errors import BadFrame, RemoteProtocolError
from headrace.model import (
    Message,
    MessageExt,
    MessageQueue,
    decode_host,
    decode_offset_message_id,
    decode_properties,
    encode_host,
    encode_offset_message_id,
    encode_properties,
    string_hash,
)
from headrace.protocol import FrameDecoder, LanguageCode, RemotingCommand, SerializeType, decode_frame, fastjson
from headrace.protocol.batch import decode_batch, encode_batch
from headrace.protocol.binary_header import decode_binary_header
from headrace.protocol.bodies import (
    ConsumerRunningInfo,
    ConsumeStats,
    HeartbeatData,
    OffsetWrapper,
    RegisterBrokerBody,
    TopicRouteData,
    decode_properties_text,
)
from headrace.protocol.compression import compress, decompress
from headrace.protocol.ha_frame import HaFrameDecoder
from headrace.protocol.headers import REQUEST_HEADERS
from headrace.protocol.json_header import decode_json_header
from headrace.protocol.record import check_record, decode_record, decode_records, encode_blank, encode_message

# limit: 60 examples find an error in a codec this small; use `--hypothesis-seed` and more examples when changing it.
few = settings(max_examples=60, deadline=None)

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAME = st.text("abcXYZ019_-%|", min_size=1, max_size=127)
PROPERTY = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=20)
PROPERTIES = st.dictionaries(PROPERTY, PROPERTY, max_size=5)
ADDRESS = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)
HOST = st.tuples(ADDRESS, st.integers(0, 65535))

commands = st.builds(
    RemotingCommand,
    code=st.integers(-(2**15), 2**15 - 1),
    language=st.sampled_from(LanguageCode),
    version=st.integers(0, 2**15 - 1),
    opaque=I32,
    flag=st.integers(0, 3),
    remark=st.none() | TEXT.filter(bool),
    ext_fields=st.none() | st.dictionaries(TEXT, TEXT, min_size=1, max_size=6),
    body=st.binary(max_size=200),
    serialize_type=st.sampled_from(SerializeType),
)

messages = st.builds(
    MessageExt,
    topic=NAME,
    queue_id=I32,
    queue_offset=I64,
    physical_offset=I64,
    sys_flag=st.integers(0, 0x7FF).map(lambda flag: flag & ~0x31),
    flag=I32,
    body=st.binary(max_size=300),
    born_timestamp=I64,
    born_host=HOST,
    store_timestamp=I64,
    store_host=HOST,
    reconsume_times=I32,
    prepared_transaction_offset=I64,
    properties=PROPERTIES,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | st.integers(-99, 99), inner, max_size=4),
    max_leaves=20,
)


def without_nones(value: Any) -> Any:
    """The value after fastjson has dropped keys whose value is null."""
    if isinstance(value, dict):
        return {key: without_nones(item) for key, item in value.items() if item is not None}
    return [without_nones(item) for item in value] if isinstance(value, list) else value


def without_object_keys(value: Any) -> Any:
    """With lists in place of objects, and of keys that are objects, because these may have a name twice."""
    if isinstance(value, dict):
        return [
            (
                without_object_keys(fastjson.loads(key)) if isinstance(key, fastjson.ObjectKey) else key,
                without_object_keys(one),
            )
            for key, one in value.items()
        ]
    return [without_object_keys(one) for one in value] if isinstance(value, list) else value


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data split at places (modulo its length)."""
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(at)]


@few
@given(commands)
def test_command_round_trips(command: RemotingCommand) -> None:
    assert decode_frame(command.encode()) == command


@few
@given(st.lists(commands, max_size=5), st.lists(st.integers(0, 10**6), max_size=10))
def test_commands_decode_the_same_however_the_stream_is_split(sent: list[RemotingCommand], places: list[int]) -> None:
    decoder = FrameDecoder()
    data = b"".join(command.encode() for command in sent)
    assert [command for piece in cut(data, places) for command in decoder.feed(piece)] == sent
    decoder.eof()


@few
@given(st.lists(st.binary(max_size=60), max_size=4))
@example([b"\x00\x00\x00\x06\x00\x00\x00\x02{}"])
@example([b"\x00\x00\x00\x04\x01\x00\x00\x00"])
@example([b"\x16\x03\x01"])
def test_arbitrary_bytes_decode_as_frames_or_raise_a_protocol_error(pieces: list[bytes]) -> None:
    decoder = FrameDecoder()
    try:
        for piece in pieces:
            decoder.feed(piece)
        decoder.eof()
    except BadFrame:
        pass


@few
@given(commands, st.data())
def test_corrupt_frame_decodes_or_raises_a_protocol_error(command: RemotingCommand, data: st.DataObject) -> None:
    garbled = bytearray(command.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        garbled[data.draw(st.integers(0, len(garbled) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = FrameDecoder().feed(garbled)
    except BadFrame:
        return
    for one in found:
        header = REQUEST_HEADERS.get(one.code)  # type: ignore[call-overload]
        if header:
            try:
                header.from_ext(one.ext)
            except RemoteProtocolError:
                pass


@few
@given(st.binary(max_size=80))
def test_arbitrary_bytes_decode_as_a_header_or_raise_a_protocol_error(data: bytes) -> None:
    for decode in (decode_json_header, decode_binary_header):
        try:
            decode(data)
        except RemoteProtocolError:
            pass


@few
@given(messages)
def test_stored_message_round_trips(message: MessageExt) -> None:
    message.properties_raw = encode_properties(message.properties).encode()
    record = encode_message(message)
    read = decode_record(b"before" + record + b"after", 6)
    assert read.size_bytes == len(record)
    assert read.sys_flag & ~0x30 == message.sys_flag
    message.sys_flag, message.size_bytes = read.sys_flag, read.size_bytes
    assert read == message
    message.body_crc = zlib.crc32(message.body) & 0x7FFFFFFF
    assert check_record(encode_message(message)) == (True, len(record))
    assert encode_message(read) == record


@few
@given(messages, st.data())
def test_corrupt_record_raises_only_declared_errors(message: MessageExt, data: st.DataObject) -> None:
    garbled = bytearray(encode_message(message))
    for _ in range(data.draw(st.integers(1, 4))):
        garbled[data.draw(st.integers(0, len(garbled) - 1))] = data.draw(st.integers(0, 255))
    check = check_record(garbled)
    try:
        read = decode_record(garbled)
    except RemoteProtocolError:
        return
    # A readable record has consistent lengths, so at most its body CRC fails.
    assert check_record(garbled, check_crc=False).is_ok
    assert check.size in (read.size_bytes, -1)


@few
@given(st.binary(max_size=300))
def test_arbitrary_bytes_decode_as_records_or_raise_a_protocol_error(data: bytes) -> None:
    check_record(data)
    for decode in (decode_records, decode_batch, HaFrameDecoder().feed):
        try:
            decode(data)
        except RemoteProtocolError:
            pass


@few
@given(st.integers(8, 2**31 - 1))
def test_blank_record_is_recognised(length: int) -> None:
    assert check_record(encode_blank(length)).is_blank


@few
@given(json_values)
def test_json_round_trips(value: Any) -> None:
    expected = without_nones(value)
    assert fastjson.loads(fastjson.dumps(value)) == expected
    assert fastjson.loads(fastjson.dumps_pretty(value)) == expected


@few
@given(
    st.lists(st.sampled_from(["{", "}", "[", "]", ":", ",", '"', '"a"', "{0:", '{{"q":', "1", "-", " "]), max_size=20)
)
def test_keys_without_quotes_are_read_as_by_the_slow_parser(pieces: list[str]) -> None:
    text = "".join(pieces)
    found: list[Any] = []
    for is_untrusted in (False, True):  # the latter is always read by the slow parser
        try:
            found.append(without_object_keys(fastjson.loads(text, untrusted=is_untrusted)))
        except RemoteProtocolError:
            found.append(RemoteProtocolError)
    assert found[0] == found[1]


@few
@given(st.text(max_size=60) | st.text("{}[]:,\"'\\0123abc-.eu ", max_size=40))
def test_arbitrary_text_decodes_as_json_or_raises_a_protocol_error(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    for decode in (
        fastjson.loads,
        HeartbeatData.decode,
        TopicRouteData.decode,
        ConsumerRunningInfo.decode,
        decode_properties_text,
    ):
        try:
            decode(data)
        except RemoteProtocolError:
            pass


@few
@given(
    st.dictionaries(
        st.sampled_from(["offsetTable", "consumeTps", "consumerDataSet", "clientID"]), json_values, max_size=4
    )
)
def test_arbitrary_json_decodes_as_a_body_or_raises_a_protocol_error(value: Any) -> None:
    data = fastjson.dumps(value).encode()
    for body in (ConsumeStats, HeartbeatData, TopicRouteData):
        try:
            body.decode(data)
        except RemoteProtocolError:
            pass


@few
@given(
    st.dictionaries(
        st.builds(MessageQueue, NAME, TEXT, st.integers(0, 99)), st.builds(OffsetWrapper, I64, I64, I64), max_size=4
    )
)
def test_tables_keyed_by_queue_round_trip(table: dict[MessageQueue, OffsetWrapper]) -> None:
    stats = ConsumeStats(table, 1.5)
    assert ConsumeStats.decode(stats.encode()) == stats


@few
@given(st.binary(max_size=100))
def test_arbitrary_bytes_decode_as_a_registration_or_raise_a_protocol_error(data: bytes) -> None:
    for body, compressed in ((data, True), (zlib.compress(data), True), (data, False)):
        try:
            RegisterBrokerBody.decode_request(body, compressed=compressed)
        except RemoteProtocolError:
            pass


@few
@given(PROPERTIES)
def test_properties_round_trip(properties: dict[str, str]) -> None:
    text = encode_properties(properties)
    assert decode_properties(text) == decode_properties(text + "\x02") == properties


@few
@given(st.text("ab\x01\x02", max_size=20))
def test_decoded_properties_can_be_encoded_and_decoded_again(text: str) -> None:
    properties = decode_properties(text)
    assert decode_properties(encode_properties(properties)) == properties


@few
@given(st.lists(st.tuples(st.binary(max_size=50), PROPERTIES, I32), max_size=5))
def test_batch_round_trips(given_messages: list[tuple[bytes, dict[str, str], int]]) -> None:
    sent = [Message("T", body, flag=flag, properties=properties) for body, properties, flag in given_messages]
    entries = decode_batch(encode_batch(sent))
    assert [(entry.body, entry.properties, entry.flag) for entry in entries] == given_messages


@few
@given(HOST, st.integers(0, 2**63 - 1))
def test_hosts_and_message_ids_round_trip(host: tuple[str, int], offset: int) -> None:
    assert decode_host(encode_host(host)) == host
    assert decode_offset_message_id(encode_offset_message_id(host, offset)) == (host, offset)


@pytest.mark.parametrize("kind", [0x100, 0x200, 0x300])
@few
@given(body=st.binary(max_size=2000))
def test_compressed_bodies_round_trip(kind: int, body: bytes) -> None:
    assert decompress(compress(body, kind), kind) == body
    try:
        decompress(body, kind)
    except RemoteProtocolError:
        pass


@few
@given(st.text(max_size=30))
def test_string_hash_is_a_signed_32_bit_number(text: str) -> None:
    value = string_hash(text)
    assert -(2**31) <= value < 2**31
    units = text.encode("utf-16-be", "surrogatepass")
    expected = 0
    for at in range(0, len(units), 2):
        expected = expected * 31 + int.from_bytes(units[at : at + 2], "big")
    assert value % 2**32 == expected % 2**32
