"""Answers to producers that asked: who is handed them, what is stored, what the answerer is told (remoting spec 4.7)."""

from collections.abc import Callable

import pytest

from headrace.model.properties import decode_properties
from headrace.protocol.bodies import HeartbeatData, ProducerData
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.small_broker import Peer, SmallBroker, send_fields

MakeBroker = Callable[..., SmallBroker]
TO_ASKER = "REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x017"


def asker_of(broker: SmallBroker, port: int = 41000, group: str = "askers") -> Peer:
    """A producer that has said who it is."""
    peer = broker.connect(port)
    assert peer.ask(RequestCode.HEART_BEAT, None, HeartbeatData("asker", [ProducerData(group)], []).encode()).code == 0
    return peer


def reply(client: Peer, text: bytes = b"yes", properties: str = TO_ASKER) -> None:
    client.tell(RequestCode.SEND_REPLY_MESSAGE_V2, send_fields("T", 1, i=properties), text)


def take(asker: Peer, code: int = ResponseCode.SUCCESS, remark: str | None = None) -> RemotingCommand:
    """What is pushed to the one who asked, who takes it or says why not."""
    [pushed] = asker.received()
    assert pushed.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    asker.handle(response_to(pushed, code, remark).encode())
    return pushed


def test_reply_is_delivered_to_the_requester_and_stored(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    asker = asker_of(broker)
    reply(client)
    assert client.received() == []  # not before it was taken
    pushed = take(asker)
    assert pushed.body == b"yes"
    found = decode_properties(pushed.ext["properties"])
    assert (found["CORRELATION_ID"], pushed.ext["topic"], pushed.ext["queueId"]) == ("7", "T", "1")
    assert int(found["PUSH_REPLY_TIME"]) > 0
    [told] = client.received()
    record = broker.record()
    assert (told.code, told.ext["queueId"], told.ext["queueOffset"]) == (ResponseCode.SUCCESS, "1", "0")
    assert (record.topic, record.body, record.properties) == ("T", b"yes", decode_properties(TO_ASKER))


def test_reply_goes_to_one_of_two_producers_with_the_same_client_id(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    askers = asker_of(broker), asker_of(broker, 41001)
    for number in range(4):
        reply(client, b"%d" % number)
        assert take(askers[0]).body == b"%d" % number
        assert askers[1].received() == []


@pytest.mark.parametrize(
    ("properties", "remark"),
    [("TAGS\x01a", "does not name the client"), ("REPLY_TO_CLIENT\x01nobody", "is not registered with this broker")],
)
def test_reply_without_a_requester_is_refused_but_stored(
    broker: SmallBroker, client: Peer, properties: str, remark: str
) -> None:
    broker.topic()
    reply(client, properties=properties)
    [told] = client.received()
    assert (told.code, told.ext["queueOffset"]) == (ResponseCode.SYSTEM_ERROR, "0")
    assert remark in (told.remark or "")
    assert broker.record().body == b"yes"


def test_undelivered_reply_is_reported(broker: SmallBroker, client: Peer) -> None:
    broker.topic()
    asker = asker_of(broker)
    reply(client)
    take(asker, ResponseCode.SYSTEM_ERROR, "too late")
    [told] = client.received()
    assert told.code == ResponseCode.SYSTEM_ERROR
    assert "push reply message to asker fail: it answered 1 too late" in (told.remark or "")


def test_storing_of_replies_can_be_disabled(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"store_reply_message_enable": False})
    broker.topic()
    client, asker = broker.connect(), asker_of(broker)
    reply(client)
    take(asker)
    [told] = client.received()
    assert (told.code, told.ext["msgId"]) == (ResponseCode.SUCCESS, "0")
    assert broker.records() == []
