"""Pulls of consumers: the offsets that they carry, the version of the subscription, and the bounds in their results."""

import asyncio
from typing import Any

import pytest

from headrace import PullConsumer, PushConsumer, ReceivedMessage, StartFrom
from headrace.client.consuming import queue_pull
from headrace.model import pull_sys_flag
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.consuming import Gathered, eventually
from support.consuming_broker import ConsumingBroker, consuming_cluster
from support.sdk import run
from support.sdk_cluster import Cluster

KEY = ("g", "T", 0)


class StoringBroker(ConsumingBroker):
    """Stores the offsets that pulls carry, when `may_store` is set. `beats`: how many heartbeats had arrived at each pull."""

    def __init__(self, name: str, queues: int) -> None:
        super().__init__(name, queues)
        self.may_store = asyncio.Event()
        self.waiting: list[int] = []
        self.beats: list[int] = []

    async def _serve(self, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.PULL_MESSAGE:
            self.beats.append(len(self.heartbeats))
            ext = command.ext
            if int(ext["sysFlag"]) & pull_sys_flag.COMMIT_OFFSET:
                self.waiting.append(int(ext["commitOffset"]))
                await self.may_store.wait()
                self.offsets[ext["consumerGroup"], ext["topic"], int(ext["queueId"])] = int(ext["commitOffset"])
        return await super()._serve(command)

    def flags(self) -> list[int]:
        """The flags of all pulls of the topic."""
        return [int(one.ext["sysFlag"]) for one in self.requests(RequestCode.PULL_MESSAGE) if one.ext["topic"] == "T"]

    def versions(self, queue_id: int) -> list[int]:
        """The versions of the subscription in all pulls of a queue of the topic."""
        return [
            int(one.ext["subVersion"])
            for one in self.requests(RequestCode.PULL_MESSAGE)
            if (one.ext["topic"], one.ext["queueId"]) == ("T", str(queue_id))
        ]


async def storing(cluster: Cluster, plain: ConsumingBroker) -> StoringBroker:
    """Replaces the cluster's broker by such a broker."""
    await plain.stop()
    broker = StoringBroker("broker-a", plain.queues)
    cluster.brokers["broker-a"] = broker
    await broker.start()
    return broker


def consumer_of(cluster: Cluster, handler: Any, **options: Any) -> PushConsumer:
    consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST, **options)
    consumer.subscribe("T", "*", handler)
    return consumer


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("leaves", ["closes", "loses"])
def test_offset_carried_by_a_pull_is_not_stored_after_the_final_one(orderly: bool, leaves: str) -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, plain):
            broker = await storing(cluster, plain)
            broker.store("T", *(str(number).encode() for number in range(20)))
            let_go = asyncio.Event()

            async def handler(message: ReceivedMessage) -> None:
                if message.body != b"0":
                    await let_go.wait()

            consumer = consumer_of(cluster, handler, orderly=orderly, pull_batch_size=1)
            await consumer.start()
            await eventually(lambda: broker.waiting, "a pull brings an offset along")
            assert broker.waiting == [1]
            pulled = len(broker.requests(RequestCode.PULL_MESSAGE))
            let_go.set()
            await eventually(lambda: consumer.offsets("T").popitem()[1] > 1, "more is done")
            if leaves == "loses":
                broker.other_members = ["0"]  # sorts before ours: the queue is its
                broker.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"})
                leaving = asyncio.create_task(
                    eventually(lambda: "T" not in {one.topic for one in consumer.assignment()}, "the queue is lost")
                )
            else:
                leaving = asyncio.create_task(consumer.close())
            # Long enough for a client that does not wait for the pull to store the final offset before it.
            await asyncio.wait([leaving], timeout=0.3)
            broker.may_store.set()
            await leaving
            await consumer.close()
            await eventually(lambda: len(broker.requests(RequestCode.PULL_MESSAGE)) > pulled, "that pull is over")
            assert broker.offsets[KEY] > 1

    run(main())


def test_pull_that_carries_an_offset_is_not_held() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, plain):
            broker = await storing(cluster, plain)
            broker.may_store.set()
            broker.store("T", *(str(number).encode() for number in range(20)))
            gathered = Gathered()
            # Pulls do not run far ahead of consuming, so that there is an offset to carry.
            async with consumer_of(cluster, gathered, pull_batch_size=1, queue_threshold=1):
                await gathered.receive([str(number).encode() for number in range(20)])
                await eventually(lambda: broker.flags()[-1] & pull_sys_flag.SUSPEND, "the last waits for more")
            storing_flags = [flags for flags in broker.flags() if flags & pull_sys_flag.COMMIT_OFFSET]
            assert storing_flags
            assert set(broker.flags()) == {pull_sys_flag.COMMIT_OFFSET, pull_sys_flag.SUSPEND}

    run(main())


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.FILTER_DATA_NOT_EXIST,
        ResponseCode.FILTER_DATA_NOT_LATEST,
    ],
)
def test_broker_without_the_subscription_gets_a_heartbeat_and_the_pull_again(
    monkeypatch: pytest.MonkeyPatch, code: ResponseCode
) -> None:
    monkeypatch.setattr(queue_pull, "ERROR_DELAY_S", 3600)

    async def main() -> None:
        async with consuming_cluster() as (cluster, plain):
            broker = await storing(cluster, plain)
            broker.may_store.set()
            broker.store("T", b"0")
            broker.errors[RequestCode.PULL_MESSAGE] = [code]
            gathered = Gathered()
            async with consumer_of(cluster, gathered):
                await gathered.receive([b"0"])
            assert broker.beats[1] > broker.beats[0]

    run(main())


def test_broker_that_still_lacks_the_subscription_is_pulled_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_pull, "ERROR_DELAY_S", 0.01)

    async def main() -> None:
        async with consuming_cluster() as (cluster, plain):
            broker = await storing(cluster, plain)
            broker.may_store.set()
            broker.store("T", b"0")
            broker.errors[RequestCode.PULL_MESSAGE] = [ResponseCode.SUBSCRIPTION_NOT_LATEST] * 4
            gathered = Gathered()
            async with consumer_of(cluster, gathered):
                await gathered.receive([b"0"])
            assert broker.beats[4] >= broker.beats[0] + 4

    run(main())


def test_reassigned_queues_do_not_change_the_subscription_of_other_pulls() -> None:
    async def main() -> None:
        async with consuming_cluster(queues=2) as (cluster, plain):
            broker = await storing(cluster, plain)
            broker.may_store.set()
            gathered = Gathered()
            async with consumer_of(cluster, gathered) as consumer:
                broker.store("T", b"0", queue_id=0)
                await gathered.receive([b"0"])
                known = broker.versions(0)[-1]
                broker.other_members = [consumer.client_id + "0"]  # sorts after ours: the second queue is its
                broker.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"})
                await eventually(
                    lambda: (
                        broker.heartbeats[-1].consumer_data_set[0].subscription_data_set[0].sub_version > known
                        and [queue.queue_id for queue in consumer.assignment()] == [0]
                    ),
                    "one is lost, and the broker told",
                )
                broker.store("T", b"1", queue_id=0)
                await gathered.receive([b"0", b"1"])
                assert set(broker.versions(0)) == {known}
                consumer.subscribe("T", "a || b", gathered)
                await eventually(
                    lambda: broker.heartbeats[-1].consumer_data_set[0].subscription_data_set[0].sub_string == "a || b",
                    "the broker knows of another expression",
                )
                broker.store("T", b"2", queue_id=0, TAGS="a")
                broker.store("T", b"3", queue_id=0, TAGS="a")
                await gathered.receive([b"2", b"3"])
                await eventually(lambda: broker.versions(0)[-1] > known, "it is pulled with that")

    run(main())


def test_end_of_the_queue_is_never_before_the_messages_of_the_pull() -> None:
    """RocketMQ reads the end first, and then finds messages that were stored in the meantime."""

    async def main() -> None:
        async with consuming_cluster() as (cluster, broker), PullConsumer("g", cluster.name_server) as consumer:
            broker.store("T", b"0", b"1", b"2")
            broker.stored_meanwhile = 2
            (queue,) = await consumer.queues("T")
            result = await consumer.pull(queue, "*", 0, 32)
        assert result.max_offset == 3
        assert [message.max_offset - message.queue_offset for message in result.messages] == [3, 2, 1]

    run(main())
