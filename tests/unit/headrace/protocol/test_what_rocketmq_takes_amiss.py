"""Where the codec differs from RocketMQ's on purpose (docs/protocol/quirks.md)."""

import pytest

from headrace.errors import RemoteProtocolError
from headrace.protocol import RemotingCommand, RequestCode, SerializeType, compression, decode_frame, fastjson
from headrace.protocol.acl_signature import SIGNATURE, is_signed, sign
from headrace.protocol.language import LanguageCode
from headrace.protocol.record import check_record, decode_record, encode_record
from headrace.protocol.remoting_command import create_request


def test_an_empty_value_stays_empty_in_a_binary_header_and_its_signature_holds() -> None:
    ext = {"topic": "T", "properties": "", "AccessKey": "RocketMQ"}
    ext[SIGNATURE] = sign("12345678", ext)
    for form in SerializeType:
        request = RemotingCommand(RequestCode.SEND_MESSAGE, ext_fields=ext)
        request.serialize_type = form
        received = decode_frame(request.encode())
        assert received.ext == ext
        assert is_signed("12345678", received.ext)


def test_json_in_rocketmqs_dialect_is_read_two_hundred_levels_deep_and_no_deeper() -> None:
    fastjson.loads("{0:" * 200 + "1" + "}" * 200)
    with pytest.raises(RemoteProtocolError, match="nested more than 200 levels"):
        fastjson.loads("{0:" * 201 + "1" + "}" * 201)


def test_json_of_the_standard_is_never_too_deep_for_the_process() -> None:
    fastjson.loads("[" * 200 + "]" * 200)
    with pytest.raises(RemoteProtocolError, match="nested more than 200 levels"):
        fastjson.loads("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize("flag", [0x101, 0x201, 0x301])
def test_a_body_that_swells_beyond_all_bounds_is_refused(monkeypatch: pytest.MonkeyPatch, flag: int) -> None:
    assert compression.MAX_PLAIN_SIZE == 256 << 20
    monkeypatch.setattr(compression, "MAX_PLAIN_SIZE", 10_000)
    assert len(compression.decompress(compression.compress(bytes(10_000), flag), flag)) == 10_000
    with pytest.raises(RemoteProtocolError):
        compression.decompress(compression.compress(bytes(10_001), flag), flag)


def test_a_record_is_good_although_it_says_that_it_lies_elsewhere() -> None:
    record = encode_record(topic="T", body=b"x", physical_offset=1 << 40)
    assert check_record(record) == (True, len(record))
    assert decode_record(record).physical_offset == 1 << 40


def test_our_own_requests_say_that_they_come_from_python() -> None:
    request = decode_frame(create_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}).encode())
    assert request.language is LanguageCode.PYTHON
