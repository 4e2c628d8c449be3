from typing import Any

import pytest

from headrace.errors import BadFrame, LocalProtocolError
from headrace.protocol import (
    FRAME_MAX_LENGTH,
    FrameDecoder,
    LanguageCode,
    RemotingCommand,
    RequestCode,
    ResponseCode,
    SerializeType,
    create_request,
    decode_frame,
    request_name,
    response_name,
    response_to,
    version_text,
)

JSON = (
    b'{"code":310,"extFields":{"a":"PG_demo","b":"TopicTest","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000000","h":"0",'
    b'"i":"TAGS\\u0001TagA\\u0002KEYS\\u0001order-1\\u0002UNIQ_KEY\\u0001C0A8010A303918B4AAC247B760000007\\u0002WAIT\\u0001true",'
    b'"j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":409}'
)


def frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    return (
        (4 + len(header) + len(body)).to_bytes(4, "big") + (kind << 24 | len(header)).to_bytes(4, "big") + header + body
    )


def test_json_request_has_rocketmqs_layout() -> None:
    encoded = frame(JSON, b"Hello RocketMQ")
    assert (len(encoded), encoded[:8].hex()) == (391, "0000018300000171")
    command = decode_frame(encoded)
    assert (command.code, command.opaque, command.version, command.language) == (310, 7, 409, LanguageCode.JAVA)
    assert command.ext["i"].startswith("TAGS\x01TagA\x02KEYS\x01order-1")
    assert command.body == b"Hello RocketMQ"
    assert command.encode() == encoded


def test_binary_request_has_rocketmqs_layout() -> None:
    command = decode_frame(frame(JSON, b"Hello RocketMQ"))
    command.serialize_type = SerializeType.ROCKETMQ
    encoded = command.encode()
    assert len(encoded) == 266
    assert (
        encoded[:43].hex()
        == "00000106010000f40136000199000000070000000000000000000000df00016100000007" + b"PG_demo".hex()
    )
    assert decode_frame(encoded) == command


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":105,"extFields":{"topic":"TBW102"},"opaque":5}',
        b'{"opaque":"5","unknown":[{}],"extFields":{"topic":"TBW102"},"code":"105"}',
        b"{code:105,'opaque':5,extFields:{topic:'TBW102',gone:null},}",
        b'{"code":105,"extFields":{"topic":"TBW102","gone":null},"opaque":5,"remark":null,"language":"JAVA"}',
    ],
)
def test_json_header_is_decoded_in_every_notation(header: bytes) -> None:
    command = decode_frame(frame(header))
    assert (command.code, command.opaque, command.ext_fields) == (105, 5, {"topic": "TBW102"})
    assert (command.flag, command.version, command.remark, command.language) == (0, 0, None, LanguageCode.JAVA)


def test_ext_values_of_other_types_are_decoded_as_text() -> None:
    command = decode_frame(frame(b'{"code":1,"extFields":{"a":1,"b":true,"c":1.5,"d":{"x":[]}}}'))
    assert command.ext_fields == {"a": "1", "b": "true", "c": "1.5", "d": '{"x":[]}'}


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        (b'"GO"', LanguageCode.GO),
        (b"9", LanguageCode.GO),
        (b'"KLINGON"', None),
        (b"99", None),
        (b"null", None),
        (b"[]", None),
    ],
)
def test_language_may_be_a_name_a_number_or_unknown(language: bytes, expected: Any) -> None:
    assert decode_frame(frame(b'{"code":1,"language":' + language + b"}")).language == expected


def test_command_without_an_opaque_gets_a_new_one() -> None:
    first, second = (decode_frame(frame(b'{"code":1}')).opaque for _ in range(2))
    assert first != second


def test_unknown_language_number_is_accepted_in_binary() -> None:
    command = RemotingCommand(1, serialize_type=SerializeType.ROCKETMQ)
    encoded = bytearray(command.encode())
    encoded[10] = 99
    assert decode_frame(encoded).language is None


def test_last_of_duplicate_binary_keys_is_used() -> None:
    entry = b"\x00\x01a\x00\x00\x00\x01"
    header = (
        (11).to_bytes(2, "big") + b"\x00\x01\x99" + bytes(12) + (16).to_bytes(4, "big") + entry + b"1" + entry + b"2"
    )
    assert decode_frame(frame(header, kind=1)).ext_fields == {"a": "2"}


def test_absent_and_empty_ext_map_differ_in_json() -> None:
    assert decode_frame(RemotingCommand(0, ext_fields={}).encode()).ext_fields == {}
    assert decode_frame(RemotingCommand(0).encode()).ext_fields is None


def test_frames_are_decoded_however_the_bytes_are_split() -> None:
    commands = [
        RemotingCommand(code, opaque=code, ext_fields={"k": "v" * code}, body=b"b" * code) for code in range(40)
    ]
    data = b"".join(command.encode() for command in commands)
    for size in (1, 3, 7, 64, len(data)):
        decoder = FrameDecoder()
        found = [one for at in range(0, len(data), size) for one in decoder.feed(data[at : at + size])]
        assert found == commands
        assert decoder.pending == 0
        decoder.eof()


def test_trailing_bytes_wait_for_the_rest() -> None:
    encoded = frame(JSON)
    decoder = FrameDecoder()
    assert len(decoder.feed(encoded + encoded[:10])) == 1
    assert decoder.pending == 10
    with pytest.raises(BadFrame):
        decoder.eof()
    assert len(decoder.feed(memoryview(encoded)[10:])) == 1
    decoder.eof()


@pytest.mark.parametrize("length", [-1, 0, 3, FRAME_MAX_LENGTH - 3, 0x16030100])
def test_invalid_length_is_a_bad_frame(length: int) -> None:
    with pytest.raises(BadFrame, match=r"length|exceeds the limit"):
        FrameDecoder().feed(length.to_bytes(4, "big", signed=True))


def test_decoder_waits_for_the_longest_frame() -> None:
    assert FrameDecoder().feed((FRAME_MAX_LENGTH - 4).to_bytes(4, "big")) == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (frame(b"{}", kind=2), "unknown header type 2"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x01", "header of 1 bytes"),
        (frame(b""), "JSON"),
        (frame(b"[]"), "object"),
        (frame(b'{"code":'), "unexpected end"),
        (frame(b'{"extFields":7}'), "extFields"),
        (frame(b'{"code":"x"}'), "code"),
        (frame(b'{"code":3000000000}'), "32-bit"),
        (frame(b"", kind=1), "unexpected end of data"),
        (frame(bytes(17) + b"\xff\xff\xff\xff", kind=1), "ext entries: invalid length -1"),
        (frame(bytes(13) + b"\x00\x00\x00\x09" + bytes(4), kind=1), "remark: invalid length 9"),
        (frame(bytes(17) + b"\x00\x00\x00\x03\x00\x09a", kind=1), "key: invalid length 9"),
    ],
)
def test_bad_frame_has_a_reason_and_the_frames_before_it(bad: bytes, reason: str) -> None:
    good = RemotingCommand(1, opaque=9)
    with pytest.raises(BadFrame, match=reason) as caught:
        FrameDecoder().feed(good.encode() + bad)
    assert caught.value.frames == (good,)


def test_decoder_stays_broken_after_a_bad_frame() -> None:
    decoder = FrameDecoder()
    with pytest.raises(BadFrame) as caught:
        decoder.feed(frame(b"[]"))
    with pytest.raises(BadFrame):
        decoder.feed(frame(JSON))
    assert caught.value.frames == ()


def test_decode_frame_takes_exactly_one() -> None:
    encoded = frame(JSON)
    for wrong in (b"", encoded[:-1], encoded + b"x"):
        with pytest.raises(BadFrame):
            decode_frame(wrong)
    assert decode_frame(memoryview(encoded)).code == 310


def test_frame_above_the_size_limit_is_not_encoded() -> None:
    with pytest.raises(LocalProtocolError):
        RemotingCommand(1, body=bytes(FRAME_MAX_LENGTH)).encode()
    for command in (
        RemotingCommand(200050, serialize_type=SerializeType.ROCKETMQ),
        RemotingCommand(1, serialize_type=SerializeType.ROCKETMQ, ext_fields={"k" * 40000: "v"}),
        RemotingCommand(1, serialize_type=SerializeType.ROCKETMQ, opaque=1 << 40),
    ):
        with pytest.raises(LocalProtocolError):
            command.encode()


def test_response_has_the_opaque_and_the_encoding_of_its_request() -> None:
    request = create_request(RequestCode.PULL_MESSAGE, {"topic": "T"}, serialize_type=SerializeType.ROCKETMQ)
    response = response_to(request, ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", {"offset": "0"}, b"x")
    assert response.is_response
    assert not response.is_oneway
    assert (response.opaque, response.serialize_type, response.version) == (request.opaque, SerializeType.ROCKETMQ, 409)
    assert create_request(1).opaque != request.opaque


def test_oneway_request_expects_no_response() -> None:
    assert create_request(RequestCode.UPDATE_CONSUMER_OFFSET).mark_oneway().is_oneway


def test_codes_and_versions_have_names() -> None:
    assert request_name(310) == "SEND_MESSAGE_V2"
    assert request_name(77777) == "77777"
    assert response_name(17) == "TOPIC_NOT_EXIST"
    assert response_name(-3) == "-3"
    assert [version_text(one) for one in (401, 409, 479, 408, 10)] == [
        "V4_9_4",
        "V4_9_8",
        "V5_3_3",
        "V4_9_8_SNAPSHOT",
        "10",
    ]
