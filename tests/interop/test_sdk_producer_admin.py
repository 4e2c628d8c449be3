"""Administration by the Python client at both brokers."""

import time
from datetime import UTC, datetime

import pytest

from headrace import (
    LATEST,
    Admin,
    BrokerError,
    BrokerNotFound,
    ConfigError,
    Message,
    MessageExt,
    MessageInvalid,
    MessageQueue,
    OffsetChange,
    PullStatus,
    RouteNotFound,
    SubscriptionGroupConfig,
    TopicConfig,
)
from headrace.model import TopicFilterType
from headrace.protocol.bodies import ConsumerData, HeartbeatData
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.not_served import serves
from support.sdk import answered, await_registered, dump, eventually, patient, producing, run
from support.servers import Server


@pytest.fixture(scope="module", autouse=True)
def registered(server: Server) -> None:
    await_registered(server.name_server)


def test_topic_lifecycle(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-topics") as producer:
            await admin.create_topic("AdminTopic", 3)
            assert "AdminTopic" in await admin.topics()
            assert "AdminTopic" in await admin.topics_of_cluster("DefaultCluster")
            (broker,) = (await admin.masters("DefaultCluster")).values()
            assert broker == server.broker
            (name,) = await admin.masters()
            assert await admin.publish_queues("AdminTopic") == [MessageQueue("AdminTopic", name, at) for at in range(3)]
            changed = TopicConfig("AdminTopic", 5, 2, filter_type=TopicFilterType.MULTI_TAG)
            await admin.update_topic(changed, broker=broker)
            assert (await admin.topic_configs(broker))["AdminTopic"] == changed
            assert len(await admin.publish_queues("AdminTopic")) == 2
            assert len(await admin.subscribe_queues("AdminTopic")) == 5
            await producer.send(Message("AdminTopic", b"x"))
            await dump(admin, "AdminTopic", 1)
            stats = await admin.topic_stats("AdminTopic")
            assert sum(one.max_offset for one in stats.offset_table.values()) == 1
            route = await admin.topic_route("AdminTopic")
            assert [one.write_queue_nums for one in route.queue_datas] == [2]
            await admin.delete_topic("AdminTopic")
            with pytest.raises(RouteNotFound):
                async with Admin(patient(server)) as another:
                    await another.topic_route("AdminTopic")
            for wrong in ("no blanks!", "TBW102", ""):
                with pytest.raises(ConfigError):
                    await admin.create_topic(wrong)
            with pytest.raises(BrokerNotFound):
                await admin.masters("NoSuchCluster")
            assert {"TBW102", "SCHEDULE_TOPIC_XXXX"} <= set(await admin.system_topics())

    run(main())


def test_group_lifecycle(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin:
            config = SubscriptionGroupConfig("admin-group", retry_max_times=3, retry_queue_count=2)
            await admin.update_group(config, broker=server.broker)
            assert (await admin.group_configs(server.broker))["admin-group"] == config
            await admin.delete_group("admin-group", remove_offsets=True)
            assert "admin-group" not in await admin.group_configs(server.broker)
            with pytest.raises(ConfigError):
                await admin.update_group(SubscriptionGroupConfig("no blanks!"))

    run(main())


def test_offsets_can_be_searched_stored_and_reset(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-offsets") as producer:
            await admin.create_topic("AdminOffsets", 1)
            (queue,) = await producer.queues("AdminOffsets")
            for number in range(10):
                await producer.send(Message("AdminOffsets", str(number)))
            stored = await dump(admin, "AdminOffsets", 10)
            assert (await admin.min_offset(queue), await admin.max_offset(queue)) == (0, 10)
            assert await admin.earliest_store_time(queue) == stored[0].store_timestamp
            assert await admin.search_offset(queue, datetime.fromtimestamp(0, UTC)) == 0
            assert await admin.search_offset(queue, int(time.time() * 1000) + 60_000) == 9
            await admin.update_consumer_offset("admin-reader", queue, 4)
            assert await admin.consumer_offset("admin-reader", queue) == 4
            assert "admin-reader" in await admin.topic_groups("AdminOffsets")
            await admin.clone_offsets("admin-reader", "admin-clone", "AdminOffsets")
            assert await admin.consumer_offset("admin-clone", queue) == 4

    run(main())


@serves("relays")
def test_offline_group_is_reset_to_a_time(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-reset") as producer:
            await admin.create_topic("AdminReset", 1)
            (queue,) = await producer.queues("AdminReset")
            for number in range(10):
                await producer.send(Message("AdminReset", str(number)))
            await dump(admin, "AdminReset", 10)
            await admin.update_consumer_offset("admin-resetter", queue, 4)
            assert await admin.reset_offsets("admin-resetter", "AdminReset", LATEST) == {queue: 10}
            assert await admin.consumer_offset("admin-resetter", queue) == 10
            assert await admin.reset_offsets("admin-resetter", "AdminReset", 0) == {queue: 0}
            assert await admin.consumer_offset("admin-resetter", queue) == 0
            assert await admin.reset_offsets("admin-resetter", "AdminReset", LATEST, force=False) == {queue: 0}

    run(main())


def test_preview_of_a_reset_changes_nothing(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-preview") as producer:
            await admin.create_topic("AdminPreview", 2)
            first, second = await producer.queues("AdminPreview")
            for queue in (first, first, first, second):
                await producer.send(Message("AdminPreview", b"x"), queue=queue)
            await dump(admin, "AdminPreview", 4)
            await admin.update_consumer_offset("admin-previewer", first, 1)
            to_end = await admin.preview_reset("admin-previewer", "AdminPreview")
            assert to_end == [OffsetChange(first, 0, 3, 1, 3), OffsetChange(second, 0, 1, 0, 1)]
            assert [one.skipped for one in to_end] == [2, 1]
            to_begin = await admin.preview_reset("admin-previewer", "AdminPreview", 0)
            assert [(one.target_offset, one.skipped) for one in to_begin] == [(0, -1), (0, 0)]
            only_back = await admin.preview_reset("admin-previewer", "AdminPreview", force=False)
            assert [one.target_offset for one in only_back] == [1, 0]
            assert await admin.consumer_offset("admin-previewer", first) == 1
            assert await admin.consumer_offset("admin-previewer", second) == 0

    run(main())


def test_offsets_of_all_groups_and_of_delay_levels_are_listed(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-all") as producer:
            await admin.create_topic("AdminAll", 1)
            (queue,) = await producer.queues("AdminAll")
            await producer.send(Message("AdminAll", b"x"))
            await dump(admin, "AdminAll", 1)
            await admin.update_consumer_offset("admin-listed", queue, 1)
            assert (await admin.consumer_offsets(server.broker))["admin-listed"] == {"AdminAll": {0: 1}}
            await producer.send(Message("AdminAll", b"later", delay_level=1))
            await dump(admin, "AdminAll", 2)

            async def delivered() -> bool:
                return (await admin.delay_offsets(server.broker)).get(1, 0) >= 1

            await eventually(delivered, "the offset of the delay level")

    run(main())


def test_messages_are_read_from_an_offset_without_a_group(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-read") as producer:
            await admin.create_topic("AdminRead", 1)
            (queue,) = await producer.queues("AdminRead")
            for number in range(5):
                await producer.send(Message("AdminRead", str(number), tags=f"T{number}"))
            await dump(admin, "AdminRead", 5)
            page = await admin.read_messages(queue, 1, 3)
            assert [message.body for message in page.messages] == [b"1", b"2", b"3"]
            assert (page.next_offset, page.min_offset, page.max_offset) == (4, 0, 5)
            end = await admin.read_messages(queue, 5)
            assert (end.status, list(end.messages)) == (PullStatus.NO_NEW_MESSAGE, [])
            beyond = await admin.read_messages(queue, 9)
            assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 5)
            assert await admin.topic_groups("AdminRead") == []

    run(main())


@serves("relays")
def test_partly_consumed_group_is_reset_to_the_end_of_all_queues(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-partly") as producer:
            await admin.create_topic("AdminPartly", 2)
            first, second = await producer.queues("AdminPartly")
            for queue in (first, first, second):
                await producer.send(Message("AdminPartly", b"x"), queue=queue)
            await dump(admin, "AdminPartly", 3)
            await admin.update_consumer_offset("admin-part", first, 1)
            assert await admin.reset_offsets("admin-part", "AdminPartly", LATEST) == {first: 2, second: 1}
            assert await admin.consumer_offset("admin-part", second) == 1

    run(main())


def test_messages_are_found_by_key_and_both_ids(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-query") as producer:
            await admin.create_topic("AdminQuery")
            result = await producer.send(Message("AdminQuery", b"x", keys=["one", "größe"]))
            other = await producer.send(Message("AdminQuery", b"y", keys=["two"]))

            async def found() -> list[MessageExt]:
                return await admin.query_messages("AdminQuery", "größe")

            (message,) = await eventually(found, "the message by its key")
            assert message.message_id == result.message_id
            assert (await admin.view_message(other.offset_message_id)).body == b"y"

            async def by_unique_id() -> MessageExt | None:
                return await admin.query_by_unique_id("AdminQuery", other.message_id)

            again = await eventually(by_unique_id, "the message by its id")
            assert again is not None
            assert again.body == b"y"
            assert (await admin.view_message(other.message_id, "AdminQuery")).body == b"y"
            assert await admin.query_messages("AdminQuery", "three") == []
            later = message.store_timestamp + 3_600_000
            assert await admin.query_messages("AdminQuery", "one", begin=later) == []
            with pytest.raises(MessageInvalid):
                await admin.view_message("no id")
            with pytest.raises(BrokerError):
                await admin.view_message("F" * 32, "AdminQuery")
            entries = await admin.consume_queue(result.queue, result.queue_offset, 1)
            assert entries.queue_data is not None
            assert entries.max_queue_index > result.queue_offset

    run(main())


def test_connections_and_consumer_progress_are_listed(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-who") as producer:
            await admin.create_topic("AdminWho", 2)
            for _ in range(6):
                await producer.send(Message("AdminWho", b"x"))
            await dump(admin, "AdminWho", 6)

            async def known() -> bool:
                try:
                    connected = await admin.producer_connection("admin-who", "AdminWho")
                except BrokerError:
                    return False
                return [one.client_id for one in connected.connection_set] == [producer.client_id]

            await eventually(known, "the producer is known")
            assert "admin-who" in (await admin.producers(server.broker)).data
            with pytest.raises(RouteNotFound):
                await admin.consumer_progress("admin-nobody")
            # The heartbeat of a consumer group creates its retry topic, through which its members and progress are
            # found.
            beat = HeartbeatData("somebody@x", [], [ConsumerData("admin-members")]).encode()
            await admin._instance.invoke(server.broker, create_request(RequestCode.HEART_BEAT, None, beat))
            (queue, _) = await producer.queues("AdminWho")
            await admin.update_consumer_offset("admin-members", queue, 1)

            async def member() -> bool:
                try:
                    connection = await admin.consumer_connection("admin-members")
                except (RouteNotFound, BrokerError):
                    return False
                return [one.client_id for one in connection.connection_set] == ["somebody@x"]

            await eventually(member, "the member is known")
            assert await admin._instance.consumer_ids("admin-members", "AdminWho") == ["somebody@x"]
            stats = await admin.consume_stats("admin-reader-of-nothing", "AdminWho")
            assert sum(one.consumer_offset for one in stats.offset_table.values()) == 0
            listed = await admin.broker_consume_stats(server.broker)
            assert listed.broker_addr is not None

    run(main())


def test_server_configuration_can_be_read_and_changed(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin:

            async def told() -> dict[str, str]:
                try:
                    return await admin.runtime_info(server.broker)
                except BrokerError as error:
                    # Apache's broker has no figures in its first second and fails.
                    if "NoSuchElementException" not in str(error):
                        raise
                    return {}

            figures = await eventually(told, "the broker's figures")
            assert int(figures["commitLogMaxOffset"]) >= 0
            config = await admin.broker_config(server.broker)
            assert config["brokerClusterName"] == "DefaultCluster"
            await admin.update_broker_config(server.broker, {"defaultQueryMaxNum": 31})
            assert (await admin.broker_config(server.broker))["defaultQueryMaxNum"] == "31"
            (address,) = await admin.name_server_configs()
            assert address == server.name_server
            await admin.put_kv("space", "key", "größe")
            assert await admin.get_kv("space", "key") == "größe"
            assert await admin.list_kv("space") == {"key": "größe"}
            await admin.delete_kv("space", "key")
            with pytest.raises(BrokerError):
                await admin.get_kv("space", "key")
            (name,) = await admin.masters()
            assert await admin.wipe_write_permission(name)
            await admin.create_topic("AdminPermission", 1)
            assert await admin.add_write_permission(name)
            await admin.clean_expired_queues(server.broker)
            await admin.clean_unused_topics(server.broker)
            await admin.delete_expired_logs(server.broker)
            info = await admin.cluster_info()
            assert info.cluster_addr_table == {"DefaultCluster": [name]}
            assert info.broker_addr_table[name].master_address == server.broker

    run(main())


@serves("broker statistics")
def test_topic_statistics_are_returned(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-stats") as producer:
            await producer.send(Message("AdminStats", b"x"))
            stats = await answered(
                lambda: admin.broker_stats(server.broker, "TOPIC_PUT_NUMS", "AdminStats"), "the topic's figures"
            )
            assert stats.stats_minute.sum >= 0
            with pytest.raises(BrokerError):
                await admin.broker_stats(server.broker, "TOPIC_PUT_NUMS", "NoSuchTopic")

    run(main())


@pytest.mark.parametrize("server", ["headrace"], indirect=True, scope="session")
def test_statistics_totals_are_returned_by_topic_and_group(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "admin-totals") as producer:
            await admin.create_topic("AdminTotals", 1)
            (queue,) = await producer.queues("AdminTotals")
            for _ in range(3):
                await producer.send(Message("AdminTotals", b"x"))
            await dump(admin, "AdminTotals", 3)
            await admin.read_messages(queue, 0)
            assert (await admin.broker_stats_totals(server.broker, "TOPIC_PUT_NUMS"))["AdminTotals"] == 3
            got = await admin.broker_stats_totals(server.broker, "GROUP_GET_NUMS")
            assert got["AdminTotals@TOOLS_CONSUMER"] >= 3
            assert await admin.broker_stats_totals(server.broker, "NO_SUCH_SET") == {}

    run(main())


@pytest.mark.parametrize("server", ["reference"], indirect=True, scope="session")
def test_broker_of_rocketmq_has_no_totals(server: Server) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin:
            with pytest.raises(BrokerError) as refused:
                await admin.broker_stats_totals(server.broker, "TOPIC_PUT_NUMS")
            assert refused.value.code == ResponseCode.SYSTEM_ERROR

    run(main())
