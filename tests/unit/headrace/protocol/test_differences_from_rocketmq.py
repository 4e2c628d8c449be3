"""Where the codec differs from RocketMQ's on purpose (docs/protocol/quirks.md)."""

import pytest

from headrace.errors import RemoteProtocolError
from headrace.protocol import RemotingCommand, RequestCode, SerializeType, compression, decode_frame, fastjson
from headrace.protocol.acl_signature import SIGNATURE, is_signed, sign
from headrace.protocol.language import LanguageCode
from headrace.protocol.record import check_record, decode_record, encode_record
from headrace.protocol.remoting_command import create_request


def test_empty_value_in_a_binary_header_stays_empty_and_its_signature_is_valid() -> None:
    ext = {"topic": "T", "properties": "", "AccessKey": "RocketMQ"}
    ext[SIGNATURE] = sign("12345678", ext)
    for form in SerializeType:
        request = RemotingCommand(RequestCode.SEND_MESSAGE, ext_fields=ext)
        request.serialize_type = form
        received = decode_frame(request.encode())
        assert received.ext == ext
        assert is_signed("12345678", received.ext)


def test_fastjson_nesting_is_limited_to_two_hundred_levels() -> None:
    fastjson.loads("{0:" * 200 + "1" + "}" * 200)
    with pytest.raises(RemoteProtocolError, match="nested more than 200 levels"):
        fastjson.loads("{0:" * 201 + "1" + "}" * 201)


def test_deeply_nested_standard_json_is_refused_without_a_crash() -> None:
    fastjson.loads("[" * 200 + "]" * 200)
    with pytest.raises(RemoteProtocolError, match="nested more than 200 levels"):
        fastjson.loads("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize("flag", [0x101, 0x201, 0x301])
def test_body_that_decompresses_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch, flag: int) -> None:
    assert compression.MAX_PLAIN_SIZE == 256 << 20
    monkeypatch.setattr(compression, "MAX_PLAIN_SIZE", 10_000)
    assert len(compression.decompress(compression.compress(bytes(10_000), flag), flag)) == 10_000
    with pytest.raises(RemoteProtocolError):
        compression.decompress(compression.compress(bytes(10_001), flag), flag)


def test_record_with_another_physical_offset_is_valid() -> None:
    record = encode_record(topic="T", body=b"x", physical_offset=1 << 40)
    assert check_record(record) == (True, len(record))
    assert decode_record(record).physical_offset == 1 << 40


def test_own_requests_have_the_language_python() -> None:
    request = decode_frame(create_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}).encode())
    assert request.language is LanguageCode.PYTHON
