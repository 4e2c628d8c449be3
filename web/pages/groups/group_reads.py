"""GroupReads: what pages about consumer groups read of the cluster."""

import asyncio
from collections.abc import Awaitable
from typing import Final

from headrace import Admin, BrokerError, SubscriptionGroupConfig
from headrace.errors import TopicNotExist
from headrace.model import names
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ConsumerConnection, ConsumerRunningInfo, ConsumeStats, TopicStatsTable
from headrace.protocol.bodies.stats import OffsetWrapper
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.errors import NotFound, QueryFailed
from web.sampling.time_lags import delay_of

_MEMBER_TIMEOUT_S: Final = 3.0
# limit: a broker asks the member, which may hang; the rest of the page must not wait for it
_MEMBER_FRESH_S: Final = 5.0

Settings = dict[str, SubscriptionGroupConfig]
"""A group's settings by the name of the broker."""


class GroupReads:
    """Reads groups, through the cluster's cache. Every call raises HeadraceError."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def settings(self) -> tuple[dict[str, Settings], list[str]]:
        """The settings of all groups by name, and what could not be read. One request for each master."""
        masters = await self.cluster.read(("masters",), lambda admin: admin.masters())
        found: dict[str, Settings] = {}
        problems: list[str] = []
        answers = await self.cluster.map(self._settings_at, masters.values())
        for (broker, address), answer in zip(masters.items(), answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{broker} ({address}): {answer}")
            else:
                for name, config in answer.items():
                    found.setdefault(name, {})[broker] = config
        if not found and problems:
            raise QueryFailed(
                "; ".join(problems), "Check that the brokers are running and reachable, then reload the page."
            )
        return found, problems

    async def _settings_at(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """The settings of the groups of one broker, by group."""
        return await self.cluster.read(
            ("group configs", address), lambda admin: admin.group_configs(address), fresh_s=5
        )

    async def members(self, group: str) -> ConsumerConnection:
        """The connected members; without connections if there are none."""
        for address in (await self._brokers()).values():
            found = await self._members_at(group, address)
            if found.connection_set:
                return found
        return ConsumerConnection()

    async def _members_at(self, group: str, address: str) -> ConsumerConnection:
        return await self.cluster.read(
            ("members", group, address), lambda admin: _members(admin.consumer_connection(group, broker=address))
        )

    async def member_count(self, group: str) -> int:
        """How many members are connected."""
        return len((await self.members(group)).connection_set)

    async def without_members(self, group: str) -> list[str]:
        """The group, if it has no connected member. Does not raise: what cannot be read is no reason to warn."""
        [count] = await self.cluster.map(self.member_count, [group])
        return [group] if count == 0 else []

    async def progress(self, group: str) -> ConsumeStats:
        """The offsets of all queues that the group consumes, and of those of its retry topic that have messages for it.

        Every broker is asked: the retry topic, by which clients find them, does not exist before a member has connected.
        """
        brokers = await self._brokers()
        whole = ConsumeStats()
        for part in await asyncio.gather(*(self._progress_at(group, address) for address in brokers.values())):
            whole.offset_table.update(part.offset_table)
            whole.consume_tps += part.consume_tps
        retry_topic = names.retry_topic(group)
        with_offsets = {queue.broker_name for queue in whole.offset_table if queue.topic == retry_topic}
        without = [address for broker, address in brokers.items() if broker not in with_offsets]
        if without and retry_topic in await self.cluster.read(("topics",), lambda admin: admin.topics()):
            for new in await asyncio.gather(*(self._new_retries(retry_topic, address) for address in without)):
                whole.offset_table.update(new)
        return whole

    async def _brokers(self) -> dict[str, str]:
        """An address of each broker, the master's if there is one, by the broker's name.

        Requests for each group go there directly: the route of its retry topic would cost another request each time.
        """
        info = await self.cluster.read(("cluster info",), lambda admin: admin.cluster_info())
        return {
            name: data.master_address or next(iter(data.broker_addrs.values()))
            for name, data in info.broker_addr_table.items()
            if data.broker_addrs
        }

    async def _progress_at(self, group: str, address: str) -> ConsumeStats:
        return await self.cluster.read(
            ("progress", group, address), lambda admin: admin.consume_stats(group, broker=address)
        )

    async def _new_retries(self, topic: str, address: str) -> dict[MessageQueue, OffsetWrapper]:
        """The queues of a retry topic that have messages, as if none was consumed: brokers do not report queues without an offset."""
        stats = await self.cluster.read(
            ("topic stats", topic, address), lambda admin: _stats(admin.topic_stats(topic, broker=address))
        )
        return {
            queue: OffsetWrapper(one.max_offset, one.min_offset)
            for queue, one in stats.offset_table.items()
            if one.max_offset > one.min_offset
        }

    async def delays(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """For each queue of a topic, how long ago the group's next message was stored, ms; 0 if there is none."""
        spans = await self.cluster.read(
            ("time span", topic, group), lambda admin: admin.consume_time_span(topic, group), fresh_s=5
        )
        return {span.message_queue: delay_of(span) for span in spans if span.message_queue is not None}

    async def running(self, group: str, client: str, *, with_stacks: bool = False) -> ConsumerRunningInfo:
        """What a member reports about itself. Raises NotFound if it is not connected, QueryFailed if it does not answer."""
        members = await self.members(group)
        if all(member.client_id != client for member in members.connection_set):
            raise NotFound(
                "{client} is not a connected member of the consumer group {group}",
                "The page of the group lists the connected members.",
                client=client[:300],
                group=group,
            )

        async def fetch(admin: Admin) -> ConsumerRunningInfo:
            try:
                async with asyncio.timeout(_MEMBER_TIMEOUT_S):
                    return await admin.running_info(group, client, with_stacks=with_stacks)
            except TimeoutError as error:
                raise QueryFailed(
                    "the member {client} did not answer within {seconds} s",
                    "Check the member's process, then reload the page.",
                    client=client,
                    seconds=f"{_MEMBER_TIMEOUT_S:g}",
                ) from error

        return await self.cluster.read(("running", group, client, with_stacks), fetch, fresh_s=_MEMBER_FRESH_S)


async def _members(asked: Awaitable[ConsumerConnection]) -> ConsumerConnection:
    try:
        return await asked
    except BrokerError as error:
        if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        return ConsumerConnection()


async def _stats(asked: Awaitable[TopicStatsTable]) -> TopicStatsTable:
    try:
        return await asked
    except TopicNotExist:
        return TopicStatsTable()
