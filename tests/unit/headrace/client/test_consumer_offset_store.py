"""Offsets at the broker: the last one said is the one that stays."""

import asyncio

import pytest

from headrace import BrokerError, PullConsumer
from headrace.model.message_queue import MessageQueue
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from support.consuming import eventually
from support.consuming_broker import ConsumingBroker, consuming_cluster
from support.sdk import run
from support.sdk_cluster import Cluster

QUEUE = MessageQueue("T", "broker-a", 0)
KEY = ("g", "T", 0)


class SlowToStore(ConsumingBroker):
    """Handles each request by itself, as brokers with many threads do; `may_store` holds up those that store an offset, by the offset.

    `asked`: the offsets that it was told to store, also those that it has not stored yet.
    """

    def __init__(self, name: str, queues: int) -> None:
        super().__init__(name, queues)
        self.may_store: dict[str, asyncio.Event] = {}
        self.asked: list[str] = []

    async def _serve(self, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            offset = command.ext["commitOffset"]
            self.asked.append(offset)
            if offset in self.may_store:
                await self.may_store[offset].wait()
        return await super()._serve(command)


def test_an_older_offset_that_is_still_under_way_does_not_come_last() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, plain):
            broker = SlowToStore("broker-a", plain.queues)
            await replace(cluster, broker)
            async with PullConsumer("g", cluster.name_server) as consumer:
                consumer.register_topic("T")
                store = consumer._store
                assert store is not None
                gate = broker.may_store["1"] = asyncio.Event()
                store.update(QUEUE, 1)
                first = asyncio.create_task(store.persist([QUEUE]))
                await asyncio.sleep(0)
                store.update(QUEUE, 2)
                second = asyncio.create_task(store.persist([QUEUE], wait=True))
                done, _ = await asyncio.wait([first, second], timeout=0.1)
                assert not done
                gate.set()
                await asyncio.gather(first, second)
                assert broker.offsets[KEY] == 2

    run(main())


def test_the_first_offset_of_a_topic_is_stored_alone_and_the_others_then_together() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g") as (cluster, plain):
            broker = SlowToStore("broker-a", plain.queues)
            await replace(cluster, broker)
            async with PullConsumer("g", cluster.name_server) as consumer:
                consumer.register_topic("T")
                store = consumer._store
                assert store is not None
                # None of them is held: nobody but the test stores their offsets.
                queues = [MessageQueue("T", "broker-a", 10 + number) for number in range(4)]
                for number, queue in enumerate(queues):
                    store.update(queue, 10 + number)
                    broker.may_store[str(10 + number)] = asyncio.Event()
                # One task for each, as when several queues are let go of at once.
                tasks = [asyncio.create_task(store.persist([queue], wait=True)) for queue in queues]
                await eventually(lambda: broker.asked, "the first has come")
                await asyncio.wait(tasks, timeout=0.1)
                assert broker.asked == ["10"]

                # It fails: another is the first, and alone again.
                broker.errors[RequestCode.UPDATE_CONSUMER_OFFSET] = [1]
                broker.may_store["10"].set()
                with pytest.raises(BrokerError):
                    await tasks[0]
                await eventually(lambda: len(broker.asked) == 2, "the second has come")
                await asyncio.wait(tasks[1:], timeout=0.1)
                assert broker.asked == ["10", "11"]

                # It is stored: all the others at once, and what failed may follow.
                broker.may_store["11"].set()
                await eventually(lambda: sorted(broker.asked) == ["10", "11", "12", "13"], "the others have come")
                assert not tasks[2].done()
                assert not tasks[3].done()
                for gate in broker.may_store.values():
                    gate.set()
                await asyncio.gather(*tasks[1:], store.persist([queues[0]], wait=True))
                assert broker.offsets == {("g", "T", number): number for number in range(10, 14)}

    run(main())


def test_another_topic_has_a_first_offset_of_its_own() -> None:
    async def main() -> None:
        async with consuming_cluster("%RETRY%g", "U") as (cluster, plain):
            broker = SlowToStore("broker-a", plain.queues)
            await replace(cluster, broker)
            async with PullConsumer("g", cluster.name_server) as consumer:
                consumer.register_topic("T")
                store = consumer._store
                assert store is not None
                queues = [MessageQueue(topic, "broker-a", number) for topic in ("T", "U") for number in (10, 11)]
                for number, queue in enumerate(queues):
                    store.update(queue, 10 + number)
                    broker.may_store[str(10 + number)] = asyncio.Event()
                persisting = asyncio.create_task(store.persist(queues, wait=True))
                await eventually(lambda: len(broker.asked) == 2, "the first of each has come")
                await asyncio.wait([persisting], timeout=0.1)
                assert sorted(broker.asked) == ["10", "12"]
                for gate in broker.may_store.values():
                    gate.set()
                await persisting
                assert len(broker.offsets) == 4

    run(main())


async def replace(cluster: Cluster, broker: ConsumingBroker) -> None:
    """Puts a broker in the place of the cluster's."""
    await cluster.brokers["broker-a"].stop()
    cluster.brokers["broker-a"] = broker
    await broker.start()
