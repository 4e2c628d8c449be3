"""Committed offsets and the bounds of queues (remoting spec 4.11, 4.12)."""

from collections.abc import Callable

import pytest

from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.small_broker import Peer, SmallBroker

GROUP = {"consumerGroup": "CG", "topic": "T", "queueId": 0}
QUEUE = {"topic": "T", "queueId": 0}


def stored(broker: SmallBroker, client: Peer, count: int, body: bytes = b"x") -> list[int]:
    """Stores messages in queue 0 and dispatches them; returns their store timestamps."""
    broker.topic()
    before = len(broker.records())
    for _ in range(count):
        client.send(body)
    broker.dispatch()
    return [record.store_timestamp for record in broker.records()[before:]]


def test_any_offset_is_committed_as_given(broker: SmallBroker, client: Peer) -> None:
    for offset in (7, 3):
        answer = client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, GROUP | {"commitOffset": offset})
        assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {})
        answer = client.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP)
        assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {"offset": str(offset)})
    assert client.told(RequestCode.UPDATE_CONSUMER_OFFSET, GROUP | {"commitOffset": 9}) == []
    assert broker.offsets.query("CG", "T", 0) == 9


@pytest.mark.parametrize("field", ["consumerGroup", "topic", "queueId", "commitOffset"])
def test_commit_without_a_required_field_changes_nothing(broker: SmallBroker, client: Peer, field: str) -> None:
    ext = GROUP | {"commitOffset": 5}
    del ext[field]
    answer = client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert field in (answer.remark or "")
    assert broker.offsets.query("CG", "T", 0) == -1


def test_new_group_begins_at_0_if_the_first_message_is_recent_or_the_queue_is_empty(
    broker: SmallBroker, client: Peer
) -> None:
    for _ in range(2):
        answer = client.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP)
        assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {"offset": "0"})
        stored(broker, client, 3)


def test_new_group_chooses_its_start_if_the_first_message_is_far_behind(
    make_broker: Callable[..., SmallBroker],
) -> None:
    broker = make_broker(memory_bytes=1 << 16)
    client = broker.connect()
    stored(broker, client, 4, b"x" * 20_000)
    answer = client.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP)
    assert (answer.code, answer.ext_fields) == (ResponseCode.QUERY_NOT_FOUND, {})
    empty = client.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP | {"queueId": 1})
    assert (empty.code, empty.ext_fields) == (ResponseCode.SUCCESS, {"offset": "0"})


def test_minimum_and_maximum_offset_are_returned(broker: SmallBroker, client: Peer) -> None:
    stored(broker, client, 3)
    assert client.ask(RequestCode.GET_MAX_OFFSET, QUEUE | {"bname": "broker-a"}).ext_fields == {"offset": "3"}
    assert client.ask(RequestCode.GET_MIN_OFFSET, QUEUE).ext_fields == {"offset": "0"}
    client.send()
    assert client.ask(RequestCode.GET_MAX_OFFSET, QUEUE).ext_fields == {"offset": "3"}


@pytest.mark.parametrize(
    "queue", [{"topic": "T", "queueId": 99}, {"topic": "NoTopic", "queueId": 0}, {"topic": "", "queueId": -1}]
)
def test_unknown_queue_is_empty(client: Peer, queue: dict[str, object]) -> None:
    for code, ext in (
        (RequestCode.GET_MAX_OFFSET, {"offset": "0"}),
        (RequestCode.GET_MIN_OFFSET, {"offset": "0"}),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, {"timestamp": "-1"}),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"offset": "0"}),
    ):
        answer = client.ask(code, queue | {"timestamp": 1})
        assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, ext)


def test_search_by_time_returns_the_nearest_message(broker: SmallBroker, client: Peer) -> None:
    times = stored(broker, client, 3)
    search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    assert client.ask(search, QUEUE | {"timestamp": 0}).ext_fields == {"offset": "0"}
    assert client.ask(search, QUEUE | {"timestamp": times[-1] + 60_000}).ext_fields == {"offset": "2"}
    assert client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE).ext_fields == {"timestamp": str(times[0])}


@pytest.mark.parametrize("code", [14, 29, 30, 31, 32])
def test_request_without_its_fields_is_refused_without_a_traceback(
    client: Peer, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    assert client.ask(code, {"topic": "T"}).code == ResponseCode.SYSTEM_ERROR
    assert not [record for record in caplog.records if record.exc_info]
