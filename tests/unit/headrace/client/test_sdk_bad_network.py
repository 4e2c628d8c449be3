"""Clients on a bad network: resets, slowness, name servers that restart, brokers with a full disk. Nothing is lost, nothing leaks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from headrace import (
    Admin,
    ClientConfig,
    ConnectError,
    HeadraceError,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    SendFailed,
    StartFrom,
)
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.bad_network import BadNetwork
from support.consuming import Gathered
from support.consuming_broker import ConsumingBroker, consuming_cluster
from support.sdk import run
from support.sdk_cluster import Answer, Cluster

pytestmark = pytest.mark.slow


class DistantBroker(ConsumingBroker):
    """A broker that clients reach only through a bad network."""

    network: BadNetwork | None = None

    @property
    def address(self) -> str:
        """HOST:PORT of the network's near end."""
        return f"127.0.0.1:{self.port}" if self.network is None else self.network.address


@contextlib.asynccontextmanager
async def distant() -> AsyncIterator[tuple[Cluster, DistantBroker, BadNetwork]]:
    async with consuming_cluster("%RETRY%g") as (cluster, plain):
        await plain.stop()
        broker = DistantBroker(plain.name, plain.queues)
        cluster.brokers[plain.name] = broker
        await broker.start()
        async with BadNetwork(broker.port) as network:
            broker.network = network
            yield cluster, broker, network


def bodies(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


def test_sends_succeed_over_connections_that_are_reset_repeatedly() -> None:
    async def main() -> None:
        async with distant() as (cluster, broker, network):
            acknowledged = 0

            async def send(producer: Producer) -> None:
                nonlocal acknowledged
                for _ in range(50):
                    await producer.send(Message("T", b"x" * 1000))
                    acknowledged += 1
                    if acknowledged % 25 == 0:
                        network.reset()

            async with Producer("g", cluster.name_server, retries=100, send_timeout=60) as producer:
                await asyncio.gather(*(send(producer) for _ in range(8)))
                assert (await producer.send(Message("T", b"last"))).ok
            assert acknowledged == 400
            assert network.resets >= 16
            assert len(broker.sends) >= 401, "what was not answered was sent again"

    run(main())


@pytest.mark.parametrize("orderly", [False, True])
def test_push_consumer_gets_all_messages_over_connections_that_are_reset(orderly: bool) -> None:
    async def main() -> None:
        async with distant() as (cluster, broker, network):
            gathered = Gathered()
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST, orderly=orderly)
            consumer.subscribe("T", "*", gathered)
            async with consumer:
                for number in range(20):
                    broker.store("T", *bodies(20 * number + 20)[20 * number :])
                    network.reset()
                    await asyncio.sleep(0.02)
                await gathered.receive(bodies(400), 60)
                assert len(gathered.messages) == 400, "a consumer that stays gives no message twice"
                if orderly:
                    assert gathered.bodies == bodies(400)
            assert broker.offsets["g", "T", 0] == 400

    run(main())


def test_slow_network_that_splits_frames_loses_nothing() -> None:
    async def main() -> None:
        async with distant() as (cluster, broker, network):
            network.delay_s, network.piece = 0.002, 700
            broker.store("T", *(body * 100 for body in bodies(100)))
            gathered = Gathered()
            config = ClientConfig(cluster.name_server, api_timeout=30)
            consumer = PushConsumer("g", config, start_from=StartFrom.FIRST)
            consumer.subscribe("T", "*", gathered)
            async with consumer, Producer("g", config, send_timeout=60) as producer:
                results = await asyncio.gather(*(producer.send(Message("T", body * 1000)) for body in bodies(100)))
                assert sorted(result.queue_offset for result in results) == list(range(100))
                await gathered.receive([body * 100 for body in bodies(100)], 60)

    run(main(), 120)


def test_sends_end_in_time_when_nothing_gets_through() -> None:
    async def main() -> None:
        async with (
            distant() as (cluster, _broker, network),
            Producer("g", cluster.name_server, send_timeout=0.5) as producer,
        ):
            assert (await producer.send(Message("T", b"x"), timeout=30)).ok
            network.delay_s = 3600.0
            results = await asyncio.gather(
                *(producer.send(Message("T", b"x")) for _ in range(50)), return_exceptions=True
            )
            assert all(isinstance(result, SendFailed) for result in results)
            network.delay_s = 0.0
            network.reset()
            assert (await producer.send(Message("T", b"x"), timeout=30)).ok

    run(main())


def test_name_server_that_was_restarted_is_used_again() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            port = int(cluster.name_server.rpartition(":")[2])
            async with BadNetwork(port) as network:
                config = ClientConfig(network.address, poll_name_server=0.1)
                gathered = Gathered()
                consumer = PushConsumer("g", config, start_from=StartFrom.FIRST)
                consumer.subscribe("T", "*", gathered)
                async with consumer, Producer("g", config) as producer:
                    assert (await producer.send(Message("T", b"x"))).ok
                    await network.cut()
                    cluster.topics.add("New")
                    broker.store("T", b"while it is gone")
                    assert (await producer.send(Message("T", b"x"))).ok, "known routes stay"
                    with pytest.raises(ConnectError):
                        await producer.send(Message("New", b"x"))
                    await gathered.receive([b"while it is gone"])
                    await network.restore()
                    assert (await producer.send(Message("New", b"x"))).ok

    run(main())


def test_clients_can_be_started_before_any_server() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            port = int(cluster.name_server.rpartition(":")[2])
            async with BadNetwork(port) as network:
                await network.cut()
                gathered = Gathered()
                consumer = PushConsumer("g", network.address, start_from=StartFrom.FIRST)
                consumer.subscribe("T", "*", gathered)
                lite = LitePullConsumer("lite", network.address)
                lite.subscribe("T")
                async with consumer, lite, Producer("g", network.address) as producer, Admin(network.address) as admin:
                    with pytest.raises(HeadraceError):
                        await producer.send(Message("T", b"x"))
                    with pytest.raises(HeadraceError):
                        await admin.topic_route("T")
                    await network.restore()
                    broker.store("T", b"at last")
                    assert (await producer.send(Message("T", b"x"))).ok
                    await gathered.receive([b"at last"])

    run(main())


def test_broker_with_a_full_disk_is_retried_and_its_error_reported() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            broker.errors[RequestCode.PULL_MESSAGE] = [int(ResponseCode.SYSTEM_BUSY), 215, 1, 215]
            gathered = Gathered()
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST)
            consumer.subscribe("T", "*", gathered)
            async with consumer, Producer("g", cluster.name_server, retries=2) as producer:
                broker.store("T", *bodies(10))
                await gathered.receive(bodies(10))
                broker.answers = [Answer(int(ResponseCode.SYSTEM_BUSY), "[TIMEOUT_CLEAN_QUEUE]broker busy")] * 9
                with pytest.raises(HeadraceError, match="broker busy"):
                    await producer.send(Message("T", b"x"))
                broker.answers.clear()
                assert (await producer.send(Message("T", b"x"))).ok
                await consumer.persist_offsets()
                assert len(gathered.messages) == 10

    run(main())
