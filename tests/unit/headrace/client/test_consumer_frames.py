"""The consumer sends the same frames as RocketMQ's own client, field by field; its frames were recorded."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from headrace import MessageModel, PushConsumer, Retry, Sql, StartFrom
from headrace.protocol.frame import decode_frame
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from support.consuming import eventually
from support.consuming_broker import ConsumingBroker, consuming_cluster
from support.golden import frames
from support.sdk import run

VARYING = {"queueId", "queueOffset", "commitOffset", "topic", "consumerGroup", "group", "subVersion", "clientID", "offset", "originTopic",
           "originMsgId", "producerGroup"}  # fmt: skip
"""Fields whose values depend on the scenario; only their presence is compared."""


def recorded(scenario: str, code: int, wanted: Callable[[RemotingCommand], bool] = lambda _: True) -> RemotingCommand:
    """The first such request that the official client sent."""
    for line in frames(scenario):
        if line.get("code") == code and line.get("from") == "client" and line["direction"] == ">" and line["bytes"]:
            command = decode_frame(line["bytes"])
            if wanted(command):
                return command
    raise AssertionError(f"no such frame in {scenario}")


def shape(command: RemotingCommand) -> Any:
    """The fields that must be equal."""
    ext = {key: "…" if key in VARYING else value for key, value in command.ext.items()}
    # Our client waits for the answer, to know that the offset is stored (offset_store.py); the official client does not.
    flag = 0 if command.code == RequestCode.UPDATE_CONSUMER_OFFSET else command.flag
    return flag, command.ext_fields is None, ext


def assert_alike(scenario: str, broker: ConsumingBroker, *codes: RequestCode) -> None:
    for code in codes:
        assert broker.requests(code), code
        assert shape(broker.requests(code)[0]) == shape(recorded(scenario, code)), code


def keys(value: Any) -> Any:
    """The names in an object and in its nested objects."""
    if isinstance(value, dict):
        return {key: keys(one) for key, one in value.items()}
    if isinstance(value, list):
        return [keys(value[0])] if value else []
    return type(value).__name__


def beat_of(command: RemotingCommand) -> Any:
    return json.loads(command.body)


def test_requests_of_a_push_consumer_equal_the_java_clients() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g", queues=2) as (cluster, broker):
            broker.offsets["g", "T", 0] = 0
            broker.store("T", b"0", b"1")
            seen: list[bytes] = []
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST)
            consumer.subscribe("T", "*", lambda message: seen.append(message.body))
            async with consumer:
                await eventually(lambda: len(seen) == 2, "both")
                await consumer.persist_offsets()
                await eventually(lambda: broker.requests(RequestCode.UPDATE_CONSUMER_OFFSET), "offsets")
        assert_alike(
            "push", broker, RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.QUERY_CONSUMER_OFFSET,
            RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.UNREGISTER_CLIENT,
        )  # fmt: skip
        theirs = beat_of(recorded("push", RequestCode.HEART_BEAT))
        ours = json.loads(broker.heartbeats[0].encode())
        assert keys(ours) == keys(theirs)
        assert ours["producerDataSet"] == theirs["producerDataSet"]
        (one,), (other,) = ours["consumerDataSet"], theirs["consumerDataSet"]
        for name in ("consumeFromWhere", "consumeType", "messageModel", "unitMode"):
            assert one[name] == other[name]
        assert {entry["topic"] for entry in one["subscriptionDataSet"]} == {"T", "%RETRY%g"}

    run(main())


def test_requests_of_an_orderly_consumer_equal_the_java_clients() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            broker.store("T", b"0")
            seen: list[bytes] = []
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST, orderly=True)
            consumer.subscribe("T", "*", lambda message: seen.append(message.body))
            async with consumer:
                await eventually(lambda: len(seen) == 1, "it")
                client_id = consumer.client_id
                assert set(broker.locked_by.values()) == {client_id}
            assert not broker.locked_by
        assert_alike(
            "orderly", broker, RequestCode.LOCK_BATCH_MQ, RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.PULL_MESSAGE
        )
        theirs = recorded("orderly", RequestCode.LOCK_BATCH_MQ)
        assert keys(beat_of(broker.requests(RequestCode.LOCK_BATCH_MQ)[0])) == keys(beat_of(theirs))

    run(main())


def test_send_back_request_equals_the_java_clients() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            broker.store("T", b"0")

            def handler(_message: object) -> None:
                raise Retry

            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST, max_reconsume_times=2)
            consumer.subscribe("T", "*", handler)
            async with consumer:
                await eventually(lambda: broker.requests(RequestCode.CONSUMER_SEND_MSG_BACK), "sent back")
        assert_alike("retry", broker, RequestCode.CONSUMER_SEND_MSG_BACK)

    run(main())


def test_requests_of_a_broadcasting_consumer_equal_the_java_clients(tmp_path: Any) -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            consumer = PushConsumer(
                "g",
                cluster.name_server,
                start_from=StartFrom.FIRST,
                model=MessageModel.BROADCASTING,
                offsets_directory=tmp_path,
            )
            consumer.subscribe("T", "*", lambda _: None)
            async with consumer:
                assert consumer.client_id.endswith("@DEFAULT")
                await eventually(lambda: broker.requests(RequestCode.PULL_MESSAGE), "a pull")
        assert_alike("broadcast", broker, RequestCode.PULL_MESSAGE)
        theirs = beat_of(recorded("broadcast", RequestCode.HEART_BEAT))
        assert keys(json.loads(broker.heartbeats[0].encode())) == keys(theirs)
        assert not broker.requests(RequestCode.QUERY_CONSUMER_OFFSET)

    run(main())


@pytest.mark.parametrize("code", [23, 1])
def test_check_of_an_sql_expression_equals_the_java_clients(code: int) -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.errors[RequestCode.CHECK_CLIENT_CONFIG] = [code]
            consumer = PushConsumer("g", cluster.name_server)
            consumer.subscribe("T", Sql("a > 3"), lambda _: None)
            with pytest.raises(ValueError, match="as the test wants it"):
                await consumer.start()
        ours = broker.requests(RequestCode.CHECK_CLIENT_CONFIG)[0]
        theirs = recorded("filter", RequestCode.CHECK_CLIENT_CONFIG)
        assert shape(ours) == shape(theirs)
        assert keys(beat_of(ours)) == keys(beat_of(theirs))

    run(main())
