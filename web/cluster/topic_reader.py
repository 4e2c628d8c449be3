"""TopicReader: what pages read of topics, with one request for each broker where the protocol allows it."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from headrace import Admin
from headrace.errors import HeadraceError
from headrace.model.message_queue import MessageQueue
from headrace.model.topic_config import TopicConfig
from headrace.protocol.bodies.stats import TopicOffset, TopicStatsTable
from web.cluster.cluster import Cluster
from web.cluster.topic_kinds import NORMAL, topic_kind

_MOST_OFFERED: Final = 1_000  # limit: names in one form
_OFFER_TIMEOUT_S: Final = 2.0  # limit: the form is usable without them


class TopicConfigs(Struct, frozen=True):
    """The settings of topics: by topic, then by broker name; and what could not be read."""

    by_topic: dict[str, dict[str, TopicConfig]]
    problems: list[str]


class GroupOffsets(Struct, frozen=True):
    """The stored offsets of groups: by topic, then by group; the brokers that answered; and what could not be read."""

    by_topic: dict[str, dict[str, dict[MessageQueue, int]]]
    brokers: frozenset[str]
    problems: list[str]

    def lag(self, group: str, queue: MessageQueue, ends: TopicOffset) -> int | None:
        """The number of messages in a queue that a group with stored offsets in its topic has not consumed; None if its broker did not answer.

        Of a queue without an offset a group has consumed nothing: a member stores the first offset after the first message. RocketMQ counts these, too.
        """
        if queue.broker_name not in self.brokers:
            return None
        offset = self.by_topic[queue.topic][group].get(queue, 0)
        return max(0, ends.max_offset - max(offset, ends.min_offset))

    def lags(self, topic: str, queues: dict[MessageQueue, TopicOffset]) -> dict[str, int]:
        """`lag` in all queues of a topic whose brokers answered, by group."""
        groups = sorted(self.by_topic.get(topic, {}))
        return {group: sum(self.lag(group, queue, ends) or 0 for queue, ends in queues.items()) for group in groups}


class TopicReader:
    """Reads topics through the shared answers of `Cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def names(self) -> list[str]:
        """All topics known to the name servers, sorted."""
        return await self._cluster.read(("topics",), lambda admin: admin.topics())

    async def offered(self) -> Sequence[str]:
        """The topics that a form offers for a field: neither retry, dead letter nor system topics; empty if they cannot be read."""
        try:
            async with asyncio.timeout(_OFFER_TIMEOUT_S):
                names = await self.names()
        except (HeadraceError, TimeoutError):
            return ()
        return [name for name in names if topic_kind(name) == NORMAL][:_MOST_OFFERED]

    async def system_names(self) -> frozenset[str]:
        """RocketMQ's own topics."""
        return frozenset(await self._cluster.read(("system topics",), lambda admin: admin.system_topics(), fresh_s=60))

    async def masters(self) -> dict[str, str]:
        """The addresses of all masters, by broker name."""
        return await self._cluster.read(("masters",), lambda admin: admin.masters())

    async def configs(self) -> TopicConfigs:
        """The settings of all topics. One request for each master."""
        masters = await self.masters()

        async def of(address: str) -> dict[str, TopicConfig]:
            return await self._cluster.read(("topic configs", address), lambda admin: admin.topic_configs(address))

        found: dict[str, dict[str, TopicConfig]] = {}
        problems: list[str] = []
        answers = await self._cluster.map(of, masters.values())
        for (broker, address), answer in zip(masters.items(), answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{broker} ({address}): {answer}")
            else:
                for name, config in answer.items():
                    found.setdefault(name, {})[broker] = config
        return TopicConfigs(found, problems)

    async def group_offsets(self, wanted: Collection[str]) -> GroupOffsets:
        """The stored offsets of all groups in these topics. One request for each master."""
        masters = await self.masters()

        async def of(address: str) -> dict[str, dict[str, dict[int, int]]]:
            return await self._cluster.read(
                ("consumer offsets", address), lambda admin: admin.consumer_offsets(address)
            )

        found: dict[str, dict[str, dict[MessageQueue, int]]] = {}
        brokers: set[str] = set()
        problems: list[str] = []
        answers = await self._cluster.map(of, masters.values())
        for (broker, address), answer in zip(masters.items(), answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{broker} ({address}): {answer}")
                continue
            brokers.add(broker)
            for group, topics in answer.items():
                for topic in topics.keys() & wanted:
                    offsets = found.setdefault(topic, {}).setdefault(group, {})
                    offsets.update(
                        {MessageQueue(topic, broker, queue): offset for queue, offset in topics[topic].items()}
                    )
        return GroupOffsets(found, frozenset(brokers), problems)

    async def statistics(self, topic: str, brokers: Collection[str] = ()) -> TopicStatsTable:
        """The offsets of each queue. One request for each broker that has the topic.

        `brokers`: the names of all that have it. Without them they are found by the topic's route, another request.
        """
        masters = await self.masters() if brokers else {}
        addresses = [masters[broker] for broker in brokers if broker in masters]

        async def fetch(admin: Admin) -> TopicStatsTable:
            if not addresses or len(addresses) < len(brokers):
                return await admin.topic_stats(topic)
            whole = TopicStatsTable()
            for address in addresses:
                whole.offset_table.update((await admin.topic_stats(topic, broker=address)).offset_table)
            return whole

        return await self._cluster.read(("topic stats", topic), fetch)
