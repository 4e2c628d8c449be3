"""Sends when brokers fail: retries, timeouts, and the final errors."""

import asyncio

import pytest

from headrace import (
    BrokerError,
    ClientConfig,
    Message,
    PermissionDenied,
    Producer,
    RequestTimeout,
    RouteNotFound,
    SendFailed,
    SendHook,
    SendStatus,
)
from headrace.errors import ConnectError, MessageIllegal, NoNameServer, TooManyRequests
from support.loops import until
from support.sdk import run
from support.sdk_cluster import Answer, Cluster
from support.servers import free_port


@pytest.mark.parametrize("code", [1, 14, 16, 17, 204, 205])
def test_after_a_retryable_error_another_broker_is_tried(code: int) -> None:
    async def main() -> None:
        async with Cluster("a", "b") as cluster, Producer("g", cluster.name_server) as producer:
            for broker in cluster.brokers.values():
                broker.answers = [Answer(code)]
            result = await producer.send(Message("T", b"x"))
            first, second = ({"a", "b"} - {result.queue.broker_name}), {result.queue.broker_name}
            assert first != second
            counts = {name: len(broker.sends) for name, broker in cluster.brokers.items()}
            assert sum(counts.values()) == 3, "a, b, and then one that says yes"
            ids = {command.ext["i"] for broker in cluster.brokers.values() for command in broker.sends}
            assert len(ids) == 1, "each try carries the same unique id"

    run(main())


def test_error_that_is_not_retryable_is_raised_at_once() -> None:
    async def main() -> None:
        async with Cluster("a", "b") as cluster, Producer("g", cluster.name_server) as producer:
            for broker in cluster.brokers.values():
                broker.answers = [Answer(13, "too large")]
            with pytest.raises(MessageIllegal, match="too large"):
                await producer.send(Message("T", b"x"))
            assert sum(len(broker.sends) for broker in cluster.brokers.values()) == 1

    run(main())


def test_rejected_signature_is_permission_denied_and_not_retried() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server) as producer:
            cluster.brokers["a"].answers = [
                Answer(1, "org.apache.rocketmq.acl.common.AclException: Check signature failed")
            ]
            with pytest.raises(PermissionDenied, match="Check signature failed"):
                await producer.send(Message("T", b"x"))
            assert len(cluster.brokers["a"].sends) == 1

    run(main())


def test_when_all_attempts_fail_the_error_names_brokers_and_cause() -> None:
    async def main() -> None:
        async with Cluster("a", "b") as cluster, Producer("g", cluster.name_server, retries=3) as producer:
            for broker in cluster.brokers.values():
                broker.answers = [Answer(14, "disk full")] * 4
            with pytest.raises(SendFailed, match=r"4 attempts.*disk full") as caught:
                await producer.send(Message("T", b"x"))
            assert caught.value.code == 14
            assert caught.value.attempts == 4
            assert set(caught.value.brokers) == {"a", "b"}
            assert isinstance(caught.value.__cause__, BrokerError)

    run(main())


def test_broker_that_is_down_is_skipped() -> None:
    async def main() -> None:
        cluster = Cluster("a", "b")
        cluster.brokers["a"].port = free_port()
        async with cluster, Producer("g", cluster.name_server) as producer:
            await producer.send(Message("T", b"x"))
            await cluster.brokers["a"].stop()
            results = [await producer.send(Message("T", b"x")) for _ in range(6)]
            assert {result.queue.broker_name for result in results} == {"b"}
            await cluster.brokers["b"].stop()
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message("T", b"x"))
            assert isinstance(caught.value.__cause__, ConnectError)
            assert caught.value.code == 10001
            await cluster.brokers["a"].start()
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "a"

    run(main())


def test_send_to_a_silent_broker_ends_at_its_timeout() -> None:
    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            Producer("g", cluster.name_server, send_timeout=0.3, hooks=[SendHook()]) as producer,
        ):
            # Neither the route nor the connection takes the time.
            await producer.send(Message("T", b"x"), timeout=60)
            cluster.brokers["a"].is_silent = True
            loop = asyncio.get_running_loop()
            start = loop.time()
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message("T", b"x"))
            assert loop.time() - start > 0.25
            assert caught.value.attempts == 1, "none is left for another"
            assert isinstance(caught.value.__cause__, RequestTimeout)
            assert caught.value.code == 10002

    run(main())


def test_attempt_timeout_leaves_time_for_another_broker() -> None:
    async def main() -> None:
        async with (
            Cluster("a", "b") as cluster,
            Producer("g", cluster.name_server, attempt_timeout=1, send_timeout=60, retries=1) as producer,
        ):
            cluster.brokers["a"].is_silent = True
            results = [await producer.send(Message("T", b"x")) for _ in range(4)]
            assert {result.queue.broker_name for result in results} == {"b"}
            assert cluster.brokers["a"].sends

    run(main())


def test_send_to_a_given_queue_gets_one_attempt() -> None:
    async def main() -> None:
        async with Cluster("a", "b") as cluster, Producer("g", cluster.name_server) as producer:
            (queue, *_) = await producer.queues("T")
            cluster.brokers[queue.broker_name].answers = [Answer(1, "no")]
            with pytest.raises(BrokerError, match="no"):
                await producer.send(Message("T", b"x"), queue=queue)
            assert sum(len(broker.sends) for broker in cluster.brokers.values()) == 1

    run(main())


@pytest.mark.parametrize(
    ("code", "status"),
    [(10, SendStatus.FLUSH_DISK_TIMEOUT), (11, SendStatus.SLAVE_NOT_AVAILABLE), (12, SendStatus.FLUSH_SLAVE_TIMEOUT)],
)
def test_less_safely_stored_message_is_a_result_unless_retry_not_stored_is_set(code: int, status: SendStatus) -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server) as producer:
            cluster.brokers["a"].answers = [Answer(code)]
            result = await producer.send(Message("T", b"x"))
            assert result.status is status
            assert not result.ok
            async with Producer("h", cluster.name_server, retry_not_stored=True) as insisting:
                cluster.brokers["a"].answers = [Answer(code)]
                assert (await insisting.send(Message("T", b"x"))).ok
                cluster.brokers["a"].answers = [Answer(code)] * 3
                assert (await insisting.send(Message("T", b"x"))).status is status

    run(main())


def test_latency_fault_tolerance_avoids_a_slow_broker() -> None:
    async def main() -> None:
        cluster = Cluster("a", "b")
        cluster.brokers["a"].port = free_port()
        async with cluster, Producer("g", cluster.name_server, latency_fault_tolerance=True) as producer:
            await cluster.brokers["a"].stop()
            results = [await producer.send(Message("T", b"x")) for _ in range(8)]
            assert {result.queue.broker_name for result in results} == {"b"}
            await cluster.brokers["a"].start()
            await producer.send(Message("T", b"x"))
            assert not cluster.brokers["a"].sends, "it failed once, so it rests for ten minutes"

    run(main())


def test_name_servers_that_are_down_are_skipped_and_known_routes_stay() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            other = await cluster.add_name_server()
            third = await cluster.add_name_server()
            await other.stop(0)
            async with Producer("g", cluster.name_server) as producer:
                assert (await producer.send(Message("T", b"x"))).ok
                await third.stop(0)
                cluster.topics.add("U")
                assert (await producer.send(Message("U", b"x"))).ok
                cluster.topics.clear()
                assert (await producer.send(Message("U", b"x"))).ok
                with pytest.raises(RouteNotFound):
                    await producer.send(Message("V", b"x"))

    run(main())


def test_concurrent_requests_all_find_the_last_name_server_left() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            gone = [await cluster.add_name_server() for _ in range(2)]
            for server in gone:
                await server.stop(0)
            cluster.topics.update(f"T{number}" for number in range(9))
            async with Producer("g", cluster.name_server) as producer:
                sends = [producer.send(Message(f"T{number}", b"x")) for number in range(9)]
                assert all(result.ok for result in await asyncio.gather(*sends))

    run(main())


def test_connect_error_names_all_name_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)

    async def main() -> None:
        with pytest.raises(NoNameServer):
            await Producer("g").start()
        async with Producer("g", "127.0.0.1:1") as producer:
            with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
                await producer.send(Message("T", b"x"))

    run(main())


def test_timeout_too_short_for_an_attempt_raises_too_many_requests() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server) as producer:
            await producer.send(Message("T", b"x"))
            with pytest.raises(TooManyRequests):
                await producer.send(Message("T", b"x"), timeout=0)

    run(main())


def test_thousand_sends_to_a_new_topic_request_its_route_once() -> None:
    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            Producer("g", ClientConfig(cluster.name_server, api_timeout=30), send_timeout=60) as producer,
        ):
            # Connected before: a thousand sends at once may block a slow machine's loop for longer than the connect timeout.
            await producer.send(Message("T", b"x"))
            await asyncio.gather(*(producer.send(Message("New", b"x")) for _ in range(1000)))
            assert cluster.asked["New"] == 1

    run(main())


def test_cancelled_send_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server) as producer:
            cluster.brokers["a"].answers = [Answer(delay_s=600)]
            send = asyncio.create_task(producer.send(Message("T", b"x")))
            await until(lambda: cluster.brokers["a"].sends)
            send.cancel()
            with pytest.raises(asyncio.CancelledError):
                await send
            assert (await producer.send(Message("T", b"x"))).ok

    run(main())
