"""The progress of consumers by group, by broker and in time, and the statistics of a topic (admin spec 4.3, 4.5).

These requests read every queue of a topic, and for times a message of each, which may no longer be in memory. So they yield to other
requests after every few queues. Tables of queues are written as text from the start: a broker may have a hundred thousand queues, and to make and
encode a value of each takes twice the time.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from broker.admin.admin_handler import AdminHandler, refuse, respond, respond_text
from broker.admin.connected_clients import ConnectedClients, subscribes_elsewhere
from broker.admin.queue_facts import NO_TIME, QueueFacts
from broker.clients.groups import GroupTable
from broker.clients.offsets import OffsetTable
from broker.topics.topics import TopicTable
from headrace.protocol import fastjson
from headrace.protocol.bodies.stats import (
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from headrace.protocol.headers.admin import (
    GetBrokerConsumeStatsRequestHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

QUEUES_AT_ONCE: Final = 32  # limit: each may read from disk, and all other requests wait meanwhile


def no_tps(_topic: str, _group: str) -> float:
    """The rate of a group without statistics."""
    return 0.0


class ConsumeProgress:
    """Compares the ends of queues with committed offsets."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        clients: ConnectedClients,
        queues: QueueFacts,
        broker_address: str,
        group_tps: Callable[[str, str], float] = no_tps,
    ) -> None:
        """`group_tps(topic, group)`: messages per second that the group received in the last minute."""
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._queues = queues
        self._broker_address = broker_address
        self._group_tps = group_tps

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {
            RequestCode.GET_TOPIC_STATS_INFO: self.topic_stats,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self.broker_consume_stats,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_span,
        }

    async def topic_stats(self, command: RemotingCommand) -> RemotingCommand:
        """GET_TOPIC_STATS_INFO (202): bounds and last store time of every queue that is written to."""
        name = GetTopicStatsInfoRequestHeader.from_ext(command.ext_fields).topic
        topic = self._topics.find(name)
        if topic is None:
            return refuse(command, ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        before, between = self._key_texts(name)
        table = []
        for queue_id in range(topic.write_queue_count):
            await _give_way(queue_id)
            first, end = self._queues.bounds(name, queue_id)
            last = self._queues.store_time(name, queue_id, end - 1) if end > 0 else 0
            figures = f'{{"lastUpdateTimestamp":{last},"maxOffset":{max(end, 0)},"minOffset":{max(first, 0)}}}'
            table.append(f"{before}{queue_id}{between}{figures}")
        return respond_text(command, f'{{"offsetTable":{{{",".join(table)}}}}}')

    async def consume_stats(self, command: RemotingCommand) -> RemotingCommand:
        """GET_CONSUME_STATS (208). Never refused: tools treat an empty table as *not online*."""
        header = GetConsumeStatsRequestHeader.from_ext(command.ext_fields)
        group = header.consumer_group
        wanted = [header.topic] if header.topic and header.topic.strip() else list(self._offsets.by_topic(group))
        table: list[str] = []
        tps = 0.0
        for name in wanted:
            topic = self._topics.find(name)
            if topic is not None and not subscribes_elsewhere(self._clients, group, name):
                table += (await self._progress(group, name, topic.read_queue_count))[0]
                tps += self._group_tps(name, group)
        return respond_text(command, _stats_text(table, tps))

    async def broker_consume_stats(self, command: RemotingCommand) -> RemotingCommand:
        """GET_BROKER_CONSUME_STATS (317): every group with all its topics; on request only the ordered ones. The text of a ConsumeStatsList."""
        only_ordered = GetBrokerConsumeStatsRequestHeader.from_ext(command.ext_fields).is_order
        total_diff = 0
        groups = []
        for group in list(self._groups.all()):
            of_group = []
            for name in list(self._offsets.by_topic(group)):
                topic = self._topics.find(name)
                if topic is None or (only_ordered and not topic.order):
                    continue
                if subscribes_elsewhere(self._clients, group, name):
                    continue
                # compat: the write queues here, the read queues in 208.
                table, diff = await self._progress(group, name, topic.write_queue_count)
                total_diff += diff
                of_group.append(_stats_text(table, self._group_tps(name, group)))
            groups.append(f"{{{fastjson.quote(group)}:[{','.join(of_group)}]}}")
        address = fastjson.quote(self._broker_address)
        text = f'{{"brokerAddr":{address},"consumeStatsList":[{",".join(groups)}],"totalDiff":{total_diff}}}'
        return respond_text(command, text)

    async def time_span(self, command: RemotingCommand) -> RemotingCommand:
        """QUERY_CONSUME_TIME_SPAN (303): the group's position in each queue as times."""
        header = QueryConsumeTimeSpanRequestHeader.from_ext(command.ext_fields)
        topic = self._topics.find(header.topic)
        if topic is None:
            return refuse(command, ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        spans = []
        for queue_id in range(topic.write_queue_count):
            await _give_way(queue_id)
            spans.append(self._span(header.group, header.topic, queue_id))
        return respond(command, QueryConsumeTimeSpanBody(spans))

    async def _progress(self, group: str, topic: str, queue_count: int) -> tuple[list[str], int]:
        """The entries of an offset table in the text of a ConsumeStats, and how many messages the group is behind."""
        before, between = self._key_texts(topic)
        offsets = self._offsets.queues(group, topic)
        table = []
        diff = 0
        for queue_id in range(queue_count):
            await _give_way(queue_id)
            committed = max(offsets.get(queue_id, 0), 0)
            last = max(self._queues.store_time(topic, queue_id, committed - 1), 0) if committed else 0
            end = max(self._queues.bounds(topic, queue_id)[1], 0)
            diff += end - committed
            figures = f'{{"brokerOffset":{end},"consumerOffset":{committed},"lastTimestamp":{last}}}'
            table.append(f"{before}{queue_id}{between}{figures}")
        await asyncio.sleep(0)  # most topics have few queues, and there may be thousands of them
        return table, diff

    def _key_texts(self, topic: str) -> tuple[str, str]:
        """What stands before and after the id of a queue that is a key of a table."""
        return (
            f'{{"brokerName":{fastjson.quote(self._queues.broker_name)},"queueId":',
            f',"topic":{fastjson.quote(topic)}}}:',
        )

    def _span(self, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
        first, end = self._queues.bounds(topic, queue_id)
        committed = self._offsets.query(group, topic, queue_id)
        min_time = self._time(topic, queue_id, first, first, end)
        max_time = self._time(topic, queue_id, end - 1, first, end)
        consumed = self._queues.store_time(topic, queue_id, committed - 1) if committed > 0 else min_time
        # The delay of a group without an offset is the age of the oldest message.
        next_time = self._time(topic, queue_id, max(committed, first), first, end)
        delay = max(_now_ms() - next_time, 0) if next_time > 0 else 0
        return QueueTimeSpan(self._queues.queue(topic, queue_id), min_time, max_time, consumed, delay)

    def _time(self, topic: str, queue_id: int, offset: int, first: int, end: int) -> int:
        return self._queues.store_time(topic, queue_id, offset) if first <= offset < end else NO_TIME


def _stats_text(table: Iterable[str], tps: float) -> str:
    """The text of a ConsumeStats."""
    return f'{{"consumeTps":{fastjson.dumps(tps)},"offsetTable":{{{",".join(table)}}}}}'


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _give_way(queue_id: int) -> None:
    if queue_id % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
        await asyncio.sleep(0)
