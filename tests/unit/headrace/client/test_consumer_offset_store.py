"""Offsets at the broker: the last one said is the one that stays."""

import asyncio

from headrace import PullConsumer
from headrace.model.message_queue import MessageQueue
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from support.consuming_broker import ConsumingBroker, consuming_cluster
from support.sdk import run
from support.sdk_cluster import Cluster

QUEUE = MessageQueue("T", "broker-a", 0)
KEY = ("g", "T", 0)


class SlowToStore(ConsumingBroker):
    """Handles each request by itself, as brokers with many threads do; `may_store` holds up those that store an offset, by the offset."""

    def __init__(self, name: str, queues: int) -> None:
        super().__init__(name, queues)
        self.may_store: dict[str, asyncio.Event] = {}

    async def _serve(self, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.UPDATE_CONSUMER_OFFSET and command.ext["commitOffset"] in self.may_store:
            await self.may_store[command.ext["commitOffset"]].wait()
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


async def replace(cluster: Cluster, broker: ConsumingBroker) -> None:
    """Puts a broker in the place of the cluster's."""
    await cluster.brokers["broker-a"].stop()
    cluster.brokers["broker-a"] = broker
    await broker.start()
