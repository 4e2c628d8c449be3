"""The producer sends the same frames as RocketMQ's own client, field by field; its frames were recorded."""

import re
from typing import Any

import pytest

from headrace import Message, MessageQueue, Producer, ProducerSettings, TransactionProducer, reply_to
from headrace.client.producing.request_reply import request_of
from headrace.client.sending.prepared_message import SEND_BATCH, SEND_REPLY, PreparedMessage
from headrace.client.sending.send_header import EncodedRequest, SendHeaders
from headrace.errors import LocalProtocolError
from headrace.model import MessageExt
from headrace.model.properties import decode_properties, encode_properties
from headrace.protocol.batch import decode_batch
from headrace.protocol.frame import decode_frame
from headrace.protocol.frame_layout import FRAME_MAX_LENGTH
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from support.golden import frames
from support.loops import until
from support.sdk import run
from support.sdk_cluster import Cluster


def recorded(scenario: str, code: int, **wanted: str) -> RemotingCommand:
    """The first request with this code that the official client sent, with these ext fields."""
    for line in frames(scenario):
        if line.get("code") == code and line.get("from") == "client" and line["direction"] == ">" and line["bytes"]:
            command = decode_frame(line["bytes"])
            if all(re.search(pattern, command.ext.get(field, "")) for field, pattern in wanted.items()):
                return command
    raise AssertionError(f"no such frame in {scenario}")


def plain(ext: dict[str, str], *own: str) -> dict[str, Any]:
    """The ext fields without the values that differ in each run."""
    fields: dict[str, Any] = {key: ("…" if key in own else value) for key, value in ext.items()}
    if "i" in fields:
        properties = decode_properties(fields["i"])
        changing = ("UNIQ_KEY", "CORRELATION_ID", "REPLY_TO_CLIENT")
        fields["i"] = {name: len(value) if name in changing else value for name, value in properties.items()}
        fields["i"].pop("REPLY_TO_CLIENT", None)
    return fields


def test_send_equals_the_java_clients() -> None:
    theirs = recorded("send", RequestCode.SEND_MESSAGE_V2)
    properties = decode_properties(theirs.ext["i"])

    async def main() -> RemotingCommand:
        async with Cluster("broker-a", queues=4) as cluster, Producer("send-group", cluster.name_server) as producer:
            cluster.topics.add("SendTopic")
            message = Message(
                "SendTopic", theirs.body, tags=properties["TAGS"], keys=properties["KEYS"], properties={"number": "0"}
            )
            queue = (await producer.queues("SendTopic"))[int(theirs.ext["e"])]
            await producer.send(message, queue=queue)
            return cluster.brokers["broker-a"].sends[0]

    ours = run(main())
    assert plain(ours.ext, "g") == plain(theirs.ext, "g")
    assert (ours.code, ours.flag, ours.body) == (theirs.code, theirs.flag, theirs.body)


def test_batch_equals_the_java_clients() -> None:
    theirs = recorded("send", RequestCode.SEND_BATCH_MESSAGE)
    entries = decode_batch(theirs.body)

    async def main() -> RemotingCommand:
        async with Cluster("broker-a", queues=4) as cluster, Producer("send-group", cluster.name_server) as producer:
            cluster.topics.add("SendTopic")
            messages = [
                Message(
                    "SendTopic",
                    entry.body,
                    properties={k: v for k, v in entry.properties.items() if k not in ("UNIQ_KEY", "WAIT")},
                )
                for entry in entries
            ]
            queue = (await producer.queues("SendTopic"))[int(theirs.ext["e"])]
            await producer.send_batch(messages, queue=queue)
            return cluster.brokers["broker-a"].sends[0]

    ours = run(main())
    assert plain(ours.ext, "g") == plain(theirs.ext, "g")
    assert ours.code == theirs.code
    assert len(ours.body) == len(theirs.body)
    for mine, other in zip(decode_batch(ours.body), entries, strict=True):
        assert mine.body == other.body
        assert mine.properties | {"UNIQ_KEY": ""} == other.properties | {"UNIQ_KEY": ""}


def test_half_message_and_end_of_transaction_equal_the_java_clients() -> None:
    half = recorded("transaction", RequestCode.SEND_MESSAGE_V2)
    end = recorded("transaction", RequestCode.END_TRANSACTION)
    properties = decode_properties(half.ext["i"])

    async def main() -> tuple[RemotingCommand, RemotingCommand]:
        async with (
            Cluster("broker-a", queues=1) as cluster,
            TransactionProducer("transaction-group", cluster.name_server, check=lambda _message: None) as producer,
        ):
            cluster.topics.add("TransactionTopic")
            broker = cluster.brokers["broker-a"]
            message = Message(
                "TransactionTopic",
                half.body,
                tags=properties["TAGS"],
                keys=properties["KEYS"],
                properties={"number": "0"},
            )
            await producer.send_in_transaction(message, execute=lambda _message, _arg: True)
            await until(lambda: any(one.code == RequestCode.END_TRANSACTION for one in broker.others))
            return broker.sends[0], next(one for one in broker.others if one.code == RequestCode.END_TRANSACTION)

    ours, ours_end = run(main())
    assert plain(ours.ext, "g") == plain(half.ext, "g")
    assert plain(ours_end.ext, "commitLogOffset", "msgId") == plain(end.ext, "commitLogOffset", "msgId")
    assert ours_end.flag == end.flag
    assert ours_end.remark == end.remark


def test_request_and_reply_equal_the_java_clients() -> None:
    theirs = recorded("reply", RequestCode.SEND_MESSAGE_V2, i="REPLY_TO_CLIENT")
    answer = recorded("reply", RequestCode.SEND_REPLY_MESSAGE_V2)
    properties = decode_properties(theirs.ext["i"])
    _, asking = request_of(Message("AskTopic", b"x"), "client@id", int(properties["TTL"]))
    assert asking.properties.keys() | {"number", "KEYS", "TAGS", "UNIQ_KEY", "WAIT"} == properties.keys()
    reply = reply_to(MessageExt("AskTopic", properties={**properties, "CLUSTER": "DefaultCluster"}), answer.body)
    assert reply.topic == answer.ext["b"]
    expected = decode_properties(answer.ext["i"])
    expected.pop("UNIQ_KEY")
    assert {name: reply.properties[name] for name in expected if name in reply.properties} == {
        name: value for name, value in expected.items() if name in reply.properties
    }
    assert expected.keys() == reply.properties.keys()

    async def main() -> RemotingCommand:
        async with Cluster("broker-a", queues=1) as cluster, Producer("answer-group", cluster.name_server) as producer:
            cluster.topics.add(reply.topic)
            await producer.send(reply)
            return cluster.brokers["broker-a"].sends[0]

    ours = run(main())
    # Our reply has WAIT=true like other messages; the Java client's has none, which means the same.
    assert plain(ours.ext, "g", "i") == plain(answer.ext, "g", "i")
    assert ours.code == answer.code


@pytest.mark.parametrize("code", [RequestCode.GET_ROUTEINFO_BY_TOPIC])
def test_route_request_has_the_java_clients_fields(code: RequestCode) -> None:
    theirs = recorded("send", code)
    assert theirs.ext.keys() == {"topic"}


def test_unregistering_has_the_java_clients_fields() -> None:
    theirs = recorded("send", RequestCode.UNREGISTER_CLIENT)

    async def main() -> RemotingCommand:
        async with Cluster("broker-a") as cluster:
            async with Producer("send-group", cluster.name_server) as producer:
                await until(lambda: cluster.brokers["broker-a"].heartbeats)
                del producer
            return cluster.brokers["broker-a"].others[-1]

    ours = run(main())
    assert plain(ours.ext, "clientID") == plain(theirs.ext, "clientID")


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x"),
        Message("T", b"", flag=-5),
        Message("%RETRY%g", "größe \u2028", tags='quo"te\\', properties={"tab\t": "\x1f\x7f", "é": "\U0001f600"}),
        Message("T", b"x" * 10_000, keys=["a", "b"], delay_level=3),
        Message("T", b"x", properties={"lone": "\ud800"}),
    ],
)
@pytest.mark.parametrize("unit_mode", [False, True])
def test_encoded_requests_have_the_fields_of_signed_ones(message: Message, unit_mode: bool) -> None:
    queue = MessageQueue(message.topic, "broker-größe", 3)
    prepared = PreparedMessage(
        message.topic, message.body, encode_properties(message.properties), "ID", message.flag, 0x301, (message,)
    )
    if "\ud800" in prepared.properties_text:
        assert not isinstance(requests(prepared, queue, unit_mode=unit_mode)[0], EncodedRequest)
        return
    assert_same_requests(*requests(prepared, queue, unit_mode=unit_mode))


@pytest.mark.parametrize(
    "prepared",
    [
        PreparedMessage("T", b"x", "", "ID", 0, 0, (), SEND_BATCH, is_batch=True),
        PreparedMessage("T", b"x", "", "ID", 0, 0, (), SEND_REPLY),
        PreparedMessage("T", b"x", "", "ID", 0, 0, (), reconsume_times="2", max_reconsume_times="3"),
    ],
)
def test_encoded_batches_replies_and_retries_have_the_fields_of_signed_ones(prepared: PreparedMessage) -> None:
    assert_same_requests(*requests(prepared, MessageQueue("T", "a", 0)))


def test_request_larger_than_a_frame_is_rejected() -> None:
    prepared = PreparedMessage("T", bytes(FRAME_MAX_LENGTH), "", "ID", 0, 0, ())
    request = SendHeaders("g", ProducerSettings(), unit_mode=False).request(prepared, MessageQueue("T", "a", 0))
    with pytest.raises(LocalProtocolError):
        request.encode()


def requests(
    prepared: PreparedMessage, queue: MessageQueue, *, unit_mode: bool = False
) -> tuple[RemotingCommand, RemotingCommand]:
    """The request as encoded at once, and as a command that can be signed."""
    settings = ProducerSettings(create_topic_queues=7, create_topic_template='tem"plate')
    encoded, signed = (
        SendHeaders("group", settings, unit_mode=unit_mode, is_stamped=is_stamped).request(prepared, queue)
        for is_stamped in (False, True)
    )
    return encoded, signed


def assert_same_requests(encoded: RemotingCommand, signed: RemotingCommand) -> None:
    assert isinstance(encoded, EncodedRequest)
    assert not isinstance(signed, EncodedRequest)
    assert encoded.code == signed.code
    ours, theirs = decode_frame(encoded.encode()), decode_frame(signed.encode())
    assert ours.opaque == encoded.opaque
    ours.opaque = theirs.opaque
    assert plain(ours.ext, "g") == plain(theirs.ext, "g")
    ours.ext_fields = theirs.ext_fields = None
    assert ours == theirs
