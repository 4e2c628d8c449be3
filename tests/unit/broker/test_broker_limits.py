"""What clients may cause the broker to keep is limited: held pulls, topics and groups that sends and heartbeats create."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from broker.config import BrokerConfig
from broker.errors import LimitReached
from broker.statistics.counters import LIMITS
from broker.topics.creation_limit import CreationLimit
from headrace.model import connection_limits
from headrace.model.subscription import SubscriptionData
from headrace.protocol.batch import encode_entry
from headrace.protocol.bodies import CheckClientRequestBody, ConsumerData, HeartbeatData
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.fault_log import IN_FULL
from support.small_broker import Peer, SmallBroker, pull_fields, send_fields

MakeBroker = Callable[..., SmallBroker]
HOLD = {"sysFlag": 6, "suspendTimeoutMillis": 15_000}


def hold(client: Peer, queue_id: int = 0) -> list[int]:
    """Sends a pull that has to wait; the codes of what is answered at once."""
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(0, queueId=queue_id, **HOLD))
    return [answer.code for answer in client.received()]


def limits_of(client: Peer) -> dict[str, int]:
    return {limit: count for limit, count in client.faults.limits.items() if count}


def test_pulls_beyond_the_limit_of_a_connection_are_answered_with_system_busy(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"max_held_pulls_per_connection": 2})
    broker.topic()
    client, other = broker.connect(), broker.connect(40001)
    assert [hold(client) for _ in range(3)] == [[], [], [ResponseCode.SYSTEM_BUSY]]
    assert hold(other) == []
    assert limits_of(client) == {"maxHeldPullsPerConnection": 1}
    client.send()
    broker.dispatch()
    broker.run(lambda: broker.held.arrived([("T", 0)]))
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS] * 2
    assert hold(client, 1) == []


def test_pulls_beyond_the_limit_for_all_are_answered_with_system_busy(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"max_held_pulls": 3})
    broker.topic()
    client, other = broker.connect(), broker.connect(40001)
    assert [hold(client) for _ in range(2)] == [[], []]
    assert [hold(other) for _ in range(2)] == [[], [ResponseCode.SYSTEM_BUSY]]
    remark = other.ask(RequestCode.PULL_MESSAGE, pull_fields(0, **HOLD)).remark
    assert "too many held pulls: 3 (limit maxHeldPulls)" in str(remark)


def test_pulls_of_a_lost_connection_are_forgotten_at_once(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"max_held_pulls": 2})
    broker.topic()
    client, other = broker.connect(), broker.connect(40001)
    assert [hold(client) for _ in range(2)] == [[], []]
    client.close()
    assert broker.held.size == 0
    assert broker.held.next_deadline() is None
    assert hold(other) == []


def test_sends_create_no_more_topics_in_a_minute_than_allowed(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"max_topics_created_per_minute": 3})
    client = broker.connect()
    codes = [client.send(topic=f"New{number}").code for number in range(5)]
    assert codes == [ResponseCode.SUCCESS] * 3 + [ResponseCode.SYSTEM_BUSY] * 2
    assert "maxTopicsCreatedPerMinute" in str(client.send(topic="New9").remark)
    assert limits_of(client) == {"maxTopicsCreatedPerMinute": 3}
    assert client.send(topic="New1").code == ResponseCode.SUCCESS
    assert broker.topics.find("New4") is None
    broker.topic("ByAdministrator")
    assert client.send(topic="ByAdministrator").code == ResponseCode.SUCCESS


def test_heartbeats_create_no_more_groups_and_retry_topics_in_a_minute_than_allowed(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"max_topics_created_per_minute": 4})
    client = broker.connect()
    consumers = [ConsumerData(f"G{number}") for number in range(3)]
    answer = client.ask(RequestCode.HEART_BEAT, None, HeartbeatData("client", [], consumers).encode())
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert [broker.groups.all().get(f"G{number}") is not None for number in range(3)] == [True, True, False]
    assert client.pull(0, consumerGroup="G9").code == ResponseCode.SYSTEM_BUSY


def test_creations_are_allowed_again_as_time_passes() -> None:
    now = 0.0
    creations = CreationLimit(60, lambda: now)

    def create(count: int) -> int:
        """How many of so many are allowed."""
        for done in range(count):
            try:
                creations.take("topic", "T")
            except LimitReached:
                return done
        return count

    assert create(100) == 60
    now = 10.0
    assert create(100) == 10
    now = 1000.0
    assert create(100) == 60


def text_of(count: int) -> str:
    return "\x02".join(f"k{number}\x01v" for number in range(count))


@pytest.mark.parametrize("connect", [SmallBroker.connect, SmallBroker.connect_hot])
@pytest.mark.parametrize(
    ("properties", "limit"), [(text_of(9), "maxMessageProperties"), ("k\x01" + "v" * 1022, "maxMessagePropertiesSize")]
)
def test_message_with_more_or_longer_properties_than_allowed_is_illegal(
    make_broker: MakeBroker, connect: Callable[[SmallBroker], Peer], properties: str, limit: str
) -> None:
    broker = make_broker(broker={"max_message_properties": 8, "max_message_properties_size": 1024})
    broker.topic()
    client = connect(broker)
    answer = client.send(i=properties)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert limit in str(answer.remark)
    assert limits_of(client) == {limit: 1}
    assert client.send(i=text_of(8)).code == ResponseCode.SUCCESS
    assert client.send(i="k\x01" + "v" * 900).code == ResponseCode.SUCCESS
    assert len(broker.records()) == 2


@pytest.mark.parametrize("connect", [SmallBroker.connect, SmallBroker.connect_hot])
def test_message_of_a_batch_with_more_properties_than_allowed_is_illegal(
    make_broker: MakeBroker, connect: Callable[[SmallBroker], Peer]
) -> None:
    broker = make_broker(broker={"max_message_properties": 8})
    broker.topic()
    client = connect(broker)

    def send(*counts: int) -> RemotingCommand:
        body = b"".join(encode_entry(b"x", 0, text_of(count).encode()) for count in counts)
        return client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), body)

    assert send(8, 1, 8).code == ResponseCode.SUCCESS
    assert send(1, 9).code == ResponseCode.MESSAGE_ILLEGAL
    assert limits_of(client) == {"maxMessageProperties": 1}
    assert len(broker.records()) == 3


SQL = {"expressionType": "SQL92", "sysFlag": 4}
BAD_TEXT, LONG, MANY = "a = ", "a = '" + "x" * 100 + "'", "a = 1 AND b = 2 AND c = 3"


def check_expression(client: Peer, expression: str) -> RemotingCommand:
    body = CheckClientRequestBody("client", "G", SubscriptionData("T", expression, expression_type="SQL92"))
    return client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body.encode())


def register_filter(client: Peer, group: str, expression: str = "a = 1", topic: str = "T") -> RemotingCommand:
    subscription = SubscriptionData(topic, expression, expression_type="SQL92", sub_version=1)
    consumer = ConsumerData(group, subscription_data_set=[subscription])
    return client.ask(RequestCode.HEART_BEAT, None, HeartbeatData(group, [], [consumer]).encode())


def pull_with_filter_of_group(client: Peer, group: str) -> RemotingCommand:
    return client.ask(RequestCode.PULL_MESSAGE, pull_fields(0, consumerGroup=group, sysFlag=0, subVersion=1))


def answer_of_hold(client: Peer) -> RemotingCommand:
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(0, **HOLD))
    (answer,) = client.received()
    return answer


def fill_filters(client: Peer) -> None:
    register_filter(client, "CG1")
    register_filter(client, "CG2")


Reach = tuple[dict[str, Any], Callable[[Peer], object], Callable[[Peer], RemotingCommand], ResponseCode]
"""Options; what is done first; the request that exceeds the limit; the response code."""

EXCEEDED: dict[str, Reach] = {
    "maxHeldPulls": ({"max_held_pulls": 1}, hold, answer_of_hold, ResponseCode.SYSTEM_BUSY),
    "maxHeldPullsPerConnection": (
        {"max_held_pulls_per_connection": 1}, hold, answer_of_hold, ResponseCode.SYSTEM_BUSY,
    ),
    "maxTopicsCreatedPerMinute": (
        {"max_topics_created_per_minute": 1}, lambda client: client.send(topic="New1"),
        lambda client: client.send(topic="New2"), ResponseCode.SYSTEM_BUSY,
    ),
    "maxMessageProperties": (
        {"max_message_properties": 8}, lambda client: client.send(i=text_of(8)),
        lambda client: client.send(i=text_of(9)), ResponseCode.MESSAGE_ILLEGAL,
    ),
    "maxMessagePropertiesSize": (
        {"max_message_properties_size": 1024}, lambda client: client.send(i="k\x01" + "v" * 900),
        lambda client: client.send(i="k\x01" + "v" * 1022), ResponseCode.MESSAGE_ILLEGAL,
    ),
    "maxFilterLength": (
        {"max_filter_length": 100}, lambda client: client.pull(0, subscription="a = 1", **SQL),
        lambda client: client.pull(0, subscription=LONG, **SQL), ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    ),
    "maxFilterTerms": (
        {"max_filter_terms": 9}, lambda client: client.pull(0, subscription="a = 1", **SQL),
        lambda client: client.pull(0, subscription=MANY, **SQL), ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    ),
    "maxFilters": (
        {"max_filters": 2}, fill_filters, lambda client: register_filter(client, "CG3"), ResponseCode.SUCCESS,
    ),
}  # fmt: skip


def test_every_limit_of_the_broker_has_a_request_that_exceeds_it() -> None:
    assert {*EXCEEDED, *connection_limits.OPTIONS} == set(LIMITS)


@pytest.mark.parametrize("limit", EXCEEDED)
def test_exceeded_limit_is_counted_each_time_logged_once_and_answered_as_rocketmq_does(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    options, prepare, exceed, code = EXCEEDED[limit]
    broker = make_broker(broker={"enable_property_filter": True, **options})
    broker.topic()
    client = broker.connect()
    prepare(client)
    assert limits_of(client) == {}
    for count in (1, 2, 3):
        answer = exceed(client)
        assert answer.code == code
        assert limits_of(client) == {limit: count}
    if code != ResponseCode.SUCCESS:
        assert limit in str(answer.remark)
    lines = [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]
    assert [line.partition(" remote=")[0] for line in lines] == [f"limit reached limit={limit}"]


def test_filter_that_is_not_kept_is_answered_with_filter_data_not_exist(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"enable_property_filter": True, "max_filters": 2})
    broker.topic()
    client = broker.connect()
    fill_filters(client)
    register_filter(client, "CG3")
    codes = [pull_with_filter_of_group(client, group).code for group in ("CG1", "CG3")]
    assert codes == [ResponseCode.PULL_NOT_FOUND, ResponseCode.FILTER_DATA_NOT_EXIST]


def test_rejected_filters_of_heartbeats_are_logged_in_a_bounded_number_of_lines(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_broker(broker={"enable_property_filter": True}).connect()
    for number in range(3 * IN_FULL):
        register_filter(client, f"CG{number}", BAD_TEXT)
    lines = [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]
    assert len(lines) == IN_FULL
    assert lines[0].startswith("request refused code=34 remote=")
    assert "filter of group CG0 for topic T: " in lines[0]


@pytest.mark.parametrize("expression", [LONG, MANY])
def test_filter_of_a_heartbeat_beyond_a_limit_is_logged_as_a_limit_only(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture, expression: str
) -> None:
    options = {"enable_property_filter": True, "max_filter_length": 100, "max_filter_terms": 9}
    client = make_broker(broker=options).connect()
    for number in range(3):
        register_filter(client, f"CG{number}", expression)
    (line,) = [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]
    assert line.startswith("limit reached limit=maxFilter")
    assert list(limits_of(client).values()) == [3]


def test_filters_beyond_a_limit_are_refused(make_broker: MakeBroker) -> None:
    options = {"enable_property_filter": True, "max_filter_length": 100, "max_filter_terms": 9, "max_filters": 2}
    broker = make_broker(broker=options)
    client = broker.connect()

    assert check_expression(client, "a = 1 AND b = 2").code == ResponseCode.SUCCESS
    assert check_expression(client, MANY).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert check_expression(client, LONG).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert limits_of(client) == {"maxFilterLength": 1, "maxFilterTerms": 1}


def test_no_more_filters_are_kept_than_allowed_and_unused_ones_make_room(make_broker: MakeBroker) -> None:
    broker = make_broker(broker={"enable_property_filter": True, "max_filters": 2})
    client, other = broker.connect(), broker.connect(40001)

    def register(peer: Peer, group: str) -> bool:
        register_filter(peer, group)
        return broker.filters.find("T", group) is not None

    assert [register(client, group) for group in ("G1", "G2", "G3")] == [True, True, False]
    assert limits_of(client) == {"maxFilters": 1}
    assert register(client, "G1")
    client.close()
    assert [register(other, group) for group in ("G3", "G4", "G5")] == [True, True, False]
    assert [broker.filters.find("T", group) for group in ("G1", "G2")] == [None, None]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_frame_size": 1024}, "maxFrameSize=1024: expected a number from 1048576 to 16777216"),
        ({"max_frame_size": 1 << 25}, "maxFrameSize=33554432: expected a number from 1048576 to 16777216"),
        ({"max_header_size": 1}, "maxHeaderSize=1: expected a number from 65536 to 16777216"),
        ({"max_connections": -1}, "maxConnections=-1: expected at least 0"),
        ({"max_requests_per_account": 0}, "maxRequestsPerAccount=0: expected at least 1"),
        ({"max_held_pulls": 0}, "maxHeldPulls=0: expected at least 1"),
        (
            {"max_message_properties_size": 40_000},
            "maxMessagePropertiesSize=40000: expected a number from 1024 to 32767",
        ),
    ],
)
def test_limits_out_of_range_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        BrokerConfig(**options)
