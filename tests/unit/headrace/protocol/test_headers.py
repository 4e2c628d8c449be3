from typing import Any

import pytest

from headrace.errors import RemoteProtocolError
from headrace.protocol import RequestCode
from headrace.protocol.headers import (
    REQUEST_HEADERS,
    CreateAccessConfigRequestHeader,
    GetBrokerConsumeStatsRequestHeader,
    PullMessageResponseHeader,
    QueryMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    UnregisterClientRequestHeader,
    parse_send_header,
)

SEND: dict[str, Any] = {
    "producer_group": "g",
    "topic": "T",
    "default_topic": "TBW102",
    "default_topic_queue_nums": 4,
    "queue_id": -1,
    "sys_flag": 0,
    "born_timestamp": 1700000000000,
    "flag": 0,
}


def test_send_header_is_encoded_with_short_or_long_keys() -> None:
    letters = SendMessageRequestHeaderV2(**SEND, batch=True).to_ext()
    assert letters == {"a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "-1", "f": "0", "g": "1700000000000", "h": "0", "j": "0",
                       "k": "false", "m": "true"}  # fmt: skip
    words = SendMessageRequestHeader(**SEND).to_ext()
    assert words["defaultTopicQueueNums"] == "4"
    assert parse_send_header(RequestCode.SEND_BATCH_MESSAGE, letters) == SendMessageRequestHeaderV2(**SEND, batch=True)
    assert parse_send_header(RequestCode.SEND_REPLY_MESSAGE, words) == SendMessageRequestHeader(**SEND)


@pytest.mark.parametrize("key", list("abcdefgh"))
def test_missing_field_is_named(key: str) -> None:
    ext = SendMessageRequestHeaderV2(**SEND).to_ext()
    del ext[key]
    with pytest.raises(RemoteProtocolError, match=f"field {key} is missing"):
        SendMessageRequestHeaderV2.from_ext(ext)


def test_first_missing_field_is_named_without_ext_fields() -> None:
    with pytest.raises(RemoteProtocolError, match="producerGroup"):
        SendMessageRequestHeader.from_ext(None)


@pytest.mark.parametrize("text", ["", "x", "1.5", " 1", "1_0", "２", "2147483648", "-2147483649", "9" * 5000])
def test_invalid_number_is_named_with_its_field(text: str) -> None:
    ext = SendMessageRequestHeaderV2(**SEND).to_ext()
    with pytest.raises(RemoteProtocolError, match="field e is"):
        SendMessageRequestHeaderV2.from_ext(ext | {"e": text})


def test_numbers_may_have_a_sign_and_longs_have_64_bits() -> None:
    ext = SendMessageRequestHeaderV2(**SEND).to_ext() | {
        "e": "+2147483647",
        "g": "-9223372036854775808",
        "other": "ignored",
    }
    header = SendMessageRequestHeaderV2.from_ext(ext)
    assert (header.queue_id, header.born_timestamp) == (2147483647, -9223372036854775808)


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("TRUE", True), ("false", False), ("1", False), ("", False)]
)
def test_any_text_other_than_true_is_false(text: str, expected: Any) -> None:
    assert GetBrokerConsumeStatsRequestHeader.from_ext({"isOrder": text}).is_order is expected


def test_none_is_not_encoded() -> None:
    assert CreateAccessConfigRequestHeader("ak").to_ext() == {"accessKey": "ak"}
    assert CreateAccessConfigRequestHeader("ak", admin=False).to_ext() == {"accessKey": "ak", "admin": "false"}


def test_names_not_in_camel_case_are_kept() -> None:
    assert UnregisterClientRequestHeader("c").to_ext() == {"clientID": "c"}
    assert QueryMessageRequestHeader("T", "k", 32, 0, 1, unique_key_query=True).to_ext()["_UNIQUE_KEY_QUERY"] == "true"
    assert SendMessageResponseHeader(msg_region="r", trace_on="true").to_ext() == {
        "MSG_REGION": "r",
        "TRACE_ON": "true",
    }


def test_response_header_has_no_code() -> None:
    assert PullMessageResponseHeader.CODE is None
    assert PullMessageResponseHeader(0, 43, 0, 43).to_ext() == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "43",
        "minOffset": "0",
        "maxOffset": "43",
    }


def test_every_request_header_is_found_by_its_code() -> None:
    for code, header in REQUEST_HEADERS.items():
        assert header.CODE is not None
        assert isinstance(code, RequestCode)
    assert REQUEST_HEADERS[RequestCode.SEND_BATCH_MESSAGE] is SendMessageRequestHeaderV2
    assert len(REQUEST_HEADERS) >= 58
