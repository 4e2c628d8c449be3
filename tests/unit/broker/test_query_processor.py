"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID (remoting spec 4.13)."""

from typing import Any

import pytest

from headrace.protocol.record import decode_records
from headrace.protocol.remoting_command import RemotingCommand, SerializeType
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.small_broker import Peer, SmallBroker

FAR = (1 << 63) - 1


def query(
    client: Peer, key: str, unique: bool = False, most: int = 32, begin: int = 0, end: int = FAR, **options: Any
) -> RemotingCommand:
    ext = {"topic": "T", "key": key, "maxNum": most, "beginTimestamp": begin, "endTimestamp": end}
    return client.ask(RequestCode.QUERY_MESSAGE, ext | {"_UNIQUE_KEY_QUERY": str(unique).lower()}, **options)


def bodies(answer: RemotingCommand) -> list[bytes]:
    assert answer.code == ResponseCode.SUCCESS
    return [record.body for record in decode_records(answer.body)]


@pytest.fixture
def filled(broker: SmallBroker, client: Peer) -> SmallBroker:
    broker.topic()
    broker.topic("Other")
    for number in range(40):
        client.send(b"%d" % number, i=f"KEYS\x01all n{number}\x02UNIQ_KEY\x01U{number}")
    client.send(b"other", "Other", i="KEYS\x01all")
    broker.dispatch()
    return broker


def test_messages_are_found_by_each_of_their_keys(filled: SmallBroker, client: Peer) -> None:
    answer = query(client, "n3")
    assert bodies(answer) == [b"3"]
    last = filled.record()
    assert answer.ext_fields == {
        "indexLastUpdateTimestamp": str(last.store_timestamp), "indexLastUpdatePhyoffset": str(last.physical_offset),
    }  # fmt: skip
    assert bodies(query(client, "U7")) == [b"7"]


def test_newest_messages_up_to_the_limit_are_returned_in_log_order(filled: SmallBroker, client: Peer) -> None:
    assert bodies(query(client, "all", most=3)) == [b"37", b"38", b"39"]
    assert len(bodies(query(client, "all", most=1000))) == 40


def test_query_by_unique_key_ignores_the_limit(filled: SmallBroker, client: Peer) -> None:
    assert bodies(query(client, "U5", unique=True, most=0)) == [b"5"]
    assert len(bodies(query(client, "all", unique=True, most=1))) == 32


def test_message_is_found_by_id_without_a_topic_but_not_by_key(filled: SmallBroker, client: Peer) -> None:
    for number in range(40):
        filled.topic(f"Many{number}")
    client.send(b"there", "Many33", i="KEYS\x01k\x02UNIQ_KEY\x01V1")
    filled.dispatch()
    for name, unique, code in (("V1", True, ResponseCode.SUCCESS), ("k", False, ResponseCode.QUERY_NOT_FOUND)):
        ext = {"topic": "", "key": name, "maxNum": 32, "beginTimestamp": 0, "endTimestamp": FAR}
        answer = client.ask(RequestCode.QUERY_MESSAGE, ext | {"_UNIQUE_KEY_QUERY": str(unique).lower()})
        assert answer.code == code
        if code == ResponseCode.SUCCESS:
            assert bodies(answer) == [b"there"]
    ext = {
        "topic": "",
        "key": "V2",
        "maxNum": 32,
        "beginTimestamp": 0,
        "endTimestamp": FAR,
        "_UNIQUE_KEY_QUERY": "true",
    }
    assert client.ask(RequestCode.QUERY_MESSAGE, ext).code == ResponseCode.QUERY_NOT_FOUND


def test_not_found_response_has_the_same_fields(filled: SmallBroker, client: Peer) -> None:
    for answer in (query(client, "nobody"), query(client, "n3", most=0), query(client, "n3", begin=1, end=1000)):
        assert (answer.code, answer.body) == (ResponseCode.QUERY_NOT_FOUND, b"")
        assert answer.ext_fields == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}


def test_message_is_viewed_by_its_physical_offset(filled: SmallBroker, client: Peer) -> None:
    for record in filled.records()[:3]:
        answer = client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": record.physical_offset})
        assert (bodies(answer), answer.ext_fields) == ([record.body], None)


@pytest.mark.parametrize("offset", [3, -1, 4294967295, FAR])
def test_offset_without_a_message_is_refused(filled: SmallBroker, client: Peer, offset: int) -> None:
    answer = client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
    assert (answer.code, answer.body) == (ResponseCode.SYSTEM_ERROR, b"")
    assert f"can not find message by the offset, {offset}" in (answer.remark or "")


def test_found_messages_have_a_json_header_even_for_a_binary_request(filled: SmallBroker, client: Peer) -> None:
    assert query(client, "n3", binary=True).serialize_type is SerializeType.JSON
    assert query(client, "nobody", binary=True).serialize_type is SerializeType.ROCKETMQ
    found = client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": 0}, binary=True)
    assert found.serialize_type is SerializeType.JSON


def test_query_without_its_fields_is_refused(client: Peer) -> None:
    assert client.ask(RequestCode.QUERY_MESSAGE, {"topic": "T"}).code == ResponseCode.SYSTEM_ERROR
    assert client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": "x"}).code == ResponseCode.SYSTEM_ERROR
