"""Samples and metrics of real clusters, Apache's and ours, with traffic of the Java client."""

import time

from prometheus_client.parser import text_string_to_metric_families

from headrace import Admin, SubscriptionGroupConfig, TopicConfig
from support.client import Client, assert_exactly
from support.sdk import eventually, patient, run
from support.servers import Server
from web.metrics.exposition import Exposition
from web.sampling.own_appliance import OwnAppliance
from web.sampling.sampler import Sampler


def test_metrics_show_the_traffic_and_lag_of_the_java_client(server: Server, client: Client) -> None:
    client.create_topic("Sampled", 2)
    sent = client.send("Sampled", 20)
    client.consume("sampled-reader", "Sampled")
    assert_exactly(client.receive("sampled-reader", 20), sent)

    async def main() -> None:
        socket = server.data / "control.sock" if server.name == "headrace" else None
        own = OwnAppliance(socket)
        async with Admin(patient(server)) as admin:

            async def scraped() -> dict[str, float] | None:
                # Each try starts afresh: a group commits its offset some seconds after it has consumed.
                sampler = Sampler(admin, own)
                text = (await Exposition(sampler).scrape()).decode()
                found: dict[str, float] = {}
                for family in text_string_to_metric_families(text):
                    for one in family.samples:
                        names = (one.labels.get("topic"), one.labels.get("consumer_group"))
                        if names in {
                            ("Sampled", None),
                            ("Sampled", "sampled-reader-group"),
                            (None, "sampled-reader-group"),
                            (None, None),
                        }:
                            found[one.name] = one.value
                return found if found.get("rocketmq_consumer_lag_messages") == 0 else None

            found = await eventually(scraped, "the group's progress")
            assert found is not None
            assert found["headrace_scrape_complete"] == 1
            assert found["rocketmq_messages_in_total"] == 20
            assert found["rocketmq_consumer_connections"] == 1
            assert found["rocketmq_topic_number"] > 1
            assert found["rocketmq_storage_size"] > 0
            assert found["rocketmq_broker_permission"] == 6
            if server.name == "headrace":
                assert found["rocketmq_messages_out_total"] >= 20
                assert found["headrace_role_up"] == 1
                assert found["headrace_role_memory_bytes"] > 0

    try:
        run(main())
    finally:
        client.stop("sampled-reader")


def test_exporter_names_and_deleted_topics(server: Server, client: Client) -> None:
    client.create_topic("SampledOnce", 1)
    client.send("SampledOnce", 3)

    async def main() -> None:
        async with Admin(patient(server)) as admin:
            (queue,) = await admin.subscribe_queues("SampledOnce")
            await admin.update_consumer_offset("sampled-once", queue, 1)
            await admin.update_topic(TopicConfig("SampledOnce", 1, 1))

            async def scraped() -> str | None:
                text = (await Exposition(Sampler(admin, OwnAppliance(None))).scrape(exporter_names=True)).decode()
                # Apache's broker reports rates only some seconds after its start.
                return text if "rocketmq_broker_tps{" in text else None

            text = await eventually(scraped, "the broker's rates")
            assert text is not None
            assert "rocketmq_brokeruntime_commitlog_disk_ratio{" in text
            await admin.delete_topic("SampledOnce")
            text = (await Exposition(Sampler(admin, OwnAppliance(None))).scrape()).decode()
            assert 'topic="SampledOnce"' not in text

    run(main())


def test_group_that_never_consumed_is_as_late_as_the_first_message(server: Server, client: Client) -> None:
    client.create_topic("SampledNever", 1)
    before_ms = time.time_ns() // 1_000_000
    client.send("SampledNever", 2)

    async def main() -> None:
        async with Admin(patient(server)) as admin:
            (queue,) = await admin.subscribe_queues("SampledNever")
            await admin.update_group(SubscriptionGroupConfig("sampled-never"))
            await admin.update_consumer_offset("sampled-never", queue, 0)

            async def lag_ms() -> int | None:
                sample = await Sampler(admin, OwnAppliance(None)).latest(0)
                lags = [one.lag_ms for broker in sample.brokers for one in broker.progress]
                groups = [one.group for broker in sample.brokers for one in broker.progress]
                return dict(zip(groups, lags, strict=True)).get("sampled-never")

            found = await eventually(lag_ms, "the time lag")
            assert found is not None
            assert 0 < found <= time.time_ns() // 1_000_000 - before_ms

    run(main())
