"""A broker written for tests that consumers can use: queues in memory, offsets, members, locks.

async with consuming_cluster(queues=2) as (cluster, broker):
    broker.store("T", b"one", b"two")                # to the queues in turn
    async with PushConsumer("g", cluster.name_server) as consumer: ...
    broker.requests(RequestCode.PULL_MESSAGE)        # what was asked
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator

from headrace.model.message_queue import MessageQueue
from headrace.model.properties import encode_properties
from headrace.protocol.bodies import GetConsumerListByGroupResponseBody, LockBatchRequestBody, LockBatchResponseBody
from headrace.protocol.record import encode_record
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.remoting.connection import Connection
from support.sdk_cluster import Cluster, FakeBroker

HOST = ("127.0.0.1", 10911)


class ConsumingBroker(FakeBroker):
    """Serves pulls, offsets, members and locks. `errors`: response codes for the next requests with a request code."""

    def __init__(self, name: str, queues: int) -> None:
        super().__init__(name)
        self.queues = queues
        self.records: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.first: dict[tuple[str, int], int] = defaultdict(int)
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.locked_by: dict[MessageQueue, str] = {}
        self.errors: dict[int, list[int]] = defaultdict(list)
        self.other_members: list[str] = []
        self.stored_meanwhile = 0
        """How many messages of each pull are stored after the broker has read the queue's end."""
        self._arrived = asyncio.Event()

    def store(self, topic: str, *bodies: bytes, queue_id: int | None = None, **properties: str) -> None:
        """Appends messages, to the queues in turn unless a queue is given."""
        for number, body in enumerate(bodies):
            queue = number % self.queues if queue_id is None else queue_id
            records = self.records[topic, queue]
            records.append(
                encode_record(
                    topic=topic, body=body, queue_id=queue, queue_offset=self.first[topic, queue] + len(records), born_host=HOST,
                    store_host=HOST, properties=encode_properties({"UNIQ_KEY": f"id-{body!r}", **properties}),
                )
            )  # fmt: skip
        self._arrived.set()
        self._arrived = asyncio.Event()

    def requests(self, code: int) -> list[RemotingCommand]:
        """All requests with a code so far."""
        return [command for command in self.others if command.code == code]

    async def _serve(self, command: RemotingCommand) -> RemotingCommand | None:
        self.others.append(command)
        ext = command.ext
        if self.errors[command.code]:
            return response_to(command, self.errors[command.code].pop(0), "as the test wants it", ext={})
        if command.code == RequestCode.PULL_MESSAGE:
            return await self._pull(command)
        if command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            own = [
                beat.client_id
                for beat in self.heartbeats
                for one in beat.consumer_data_set
                if one.group_name == ext["consumerGroup"]
            ]
            members = [*dict.fromkeys(own), *self.other_members]
            return response_to(command, 0, body=GetConsumerListByGroupResponseBody(members).encode())
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            offset = self.offsets.get((ext["consumerGroup"], ext["topic"], int(ext["queueId"])))
            if offset is None:
                return response_to(command, 22, "none", ext={})
            return response_to(command, 0, ext={"offset": str(offset)})
        if command.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            self.offsets[ext["consumerGroup"], ext["topic"], int(ext["queueId"])] = int(ext["commitOffset"])
            return response_to(command, 0, ext={})
        if command.code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET):
            key = ext["topic"], int(ext["queueId"])
            end = len(self.records[key]) if command.code == RequestCode.GET_MAX_OFFSET else 0
            return response_to(command, 0, ext={"offset": str(self.first[key] + end)})
        if command.code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            return self._lock(command)
        return response_to(command, 0, ext={})

    def _lock(self, command: RemotingCommand) -> RemotingCommand:
        body = LockBatchRequestBody.decode(command.body)
        client_id = body.client_id or ""
        if command.code == RequestCode.UNLOCK_BATCH_MQ:
            for queue in body.mq_set:
                if self.locked_by.get(queue) == client_id:
                    del self.locked_by[queue]
            return response_to(command, 0)
        granted = [queue for queue in body.mq_set if self.locked_by.setdefault(queue, client_id) == client_id]
        return response_to(command, 0, body=LockBatchResponseBody(granted).encode())

    async def _pull(self, command: RemotingCommand) -> RemotingCommand:
        ext = command.ext
        key = ext["topic"], int(ext["queueId"])
        offset, first = int(ext["queueOffset"]), self.first[key]
        is_held = int(ext["sysFlag"]) & 2
        while is_held and offset == first + len(self.records[key]):
            await self._arrived.wait()
        end = first + len(self.records[key])
        bounds = {"suggestWhichBrokerId": "0", "minOffset": str(first), "maxOffset": str(end)}
        if not first <= offset <= end:
            return response_to(
                command, 21, "moved", ext=bounds | {"nextBeginOffset": str(max(first, min(offset, end)))}
            )
        found = self.records[key][offset - first :][: int(ext["maxMsgNums"])]
        if not found:
            return response_to(command, 19, "none", ext=bounds | {"nextBeginOffset": str(offset)})
        bounds["maxOffset"] = str(end - self.stored_meanwhile)
        return response_to(command, 0, "FOUND", bounds | {"nextBeginOffset": str(offset + len(found))}, b"".join(found))

    def _other(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        return self._serve(command)  # type: ignore[return-value]  # a handler may be asynchronous


@contextlib.asynccontextmanager
async def consuming_cluster(*topics: str, queues: int = 1) -> AsyncIterator[tuple[Cluster, ConsumingBroker]]:
    """A name server and one broker. Topics: T and those given; a group's retry topic must be given to exist."""
    cluster = Cluster(queues=queues)
    broker = ConsumingBroker("broker-a", queues)
    cluster.brokers["broker-a"] = broker
    cluster.topics.update(topics)
    async with cluster:
        yield cluster, broker
