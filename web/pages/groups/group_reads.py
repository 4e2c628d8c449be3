"""GroupReads: what pages about consumer groups read of the cluster."""

import asyncio
from collections.abc import Awaitable
from typing import Final

from headrace import Admin, BrokerError, RouteNotFound, SubscriptionGroupConfig
from headrace.model import names
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ConsumerConnection, ConsumerRunningInfo, ConsumeStats
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
        return await self.cluster.read(("members", group), lambda admin: _members(admin.consumer_connection(group)))

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
        info = await self.cluster.read(("cluster info",), lambda admin: admin.cluster_info())
        addresses = [
            data.master_address or next(iter(data.broker_addrs.values()))
            for data in info.broker_addr_table.values()
            if data.broker_addrs
        ]
        whole = ConsumeStats()
        for part in await asyncio.gather(*(self._progress_at(group, address) for address in addresses)):
            whole.offset_table.update(part.offset_table)
            whole.consume_tps += part.consume_tps
        retry_topic = names.retry_topic(group)
        with_offsets = {queue.broker_name for queue in whole.offset_table if queue.topic == retry_topic}
        if not with_offsets.issuperset(info.broker_addr_table):
            for queue, one in (await self._new_retries(retry_topic)).items():
                whole.offset_table.setdefault(queue, one)
        return whole

    async def _progress_at(self, group: str, address: str) -> ConsumeStats:
        return await self.cluster.read(
            ("progress", group, address), lambda admin: admin.consume_stats(group, broker=address)
        )

    async def _new_retries(self, topic: str) -> dict[MessageQueue, OffsetWrapper]:
        """The queues of a retry topic that have messages, as if none was consumed: brokers do not report queues without an offset."""
        if topic not in await self.cluster.read(("topics",), lambda admin: admin.topics()):
            return {}
        stats = await self.cluster.read(("topic stats", topic), lambda admin: admin.topic_stats(topic))
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
                    client=client,
                    seconds=f"{_MEMBER_TIMEOUT_S:g}",
                ) from error

        return await self.cluster.read(("running", group, client, with_stacks), fetch, fresh_s=_MEMBER_FRESH_S)


async def _members(asked: Awaitable[ConsumerConnection]) -> ConsumerConnection:
    try:
        return await asked
    except RouteNotFound:
        return ConsumerConnection()  # no member has ever connected: brokers create the retry topic for the first one
    except BrokerError as error:
        if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        return ConsumerConnection()
