"""One member of a consumer group: what it reports about itself, and its threads."""

from typing import Final

import msgspec

from headrace.protocol.bodies import ConsumerRunningInfo
from web.pages.groups.group_reads import GroupReads
from web.paths import path_of
from web.routes import View, Visit
from web.tables.table import Column, Kind, Table


class ReadQueueRow(msgspec.Struct, frozen=True):
    """A queue that the member reads."""

    topic: str
    broker: str
    queue: int
    commit_offset: int
    cached: int
    """Messages that it has pulled and not consumed yet."""
    cached_mib: int
    is_locked: bool
    """Whether it holds the queue's lock, which orderly consumers need."""
    pulled_at: int
    consumed_at: int | None
    """When it finished a message, or began to read the queue if it has finished none; None: the group has consumed nothing."""


class RateRow(msgspec.Struct, frozen=True):
    """What the member does with a topic. Times are ms, rates per second."""

    topic: str
    pull_rate: float
    pull_time: float
    consumed_rate: float
    failed_rate: float
    consume_time: float
    failed_last_hour: int


_QUEUE_COLUMNS: Final[tuple[Column[ReadQueueRow], ...]] = (
    Column("topic", "Topic", link=lambda row: path_of("topics", row.topic)),
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.NUMBER),
    Column("commit_offset", "Consumer offset", Kind.NUMBER),
    Column("cached", "Cached messages", Kind.NUMBER, help="Messages that the member has pulled and not consumed yet."),
    Column("cached_mib", "Cached MiB", Kind.NUMBER),
    Column(
        "is_locked",
        "Locked",
        Kind.YES_NO,
        help="Whether the member holds the queue's lock, which orderly consumers need.",
    ),
    Column("pulled_at", "Last pull", Kind.TIME),
    Column(
        "consumed_at",
        "Last consumed",
        Kind.TIME,
        help="When the member last finished a message of the queue. If it has finished none since it began to read the queue, it reports that moment.",
        none="never",
    ),
)

_UNITS: Final = {
    "awaitTerminationMillisWhenShutdown": "ms",
    "consumeTimeout": "min",
    "heartbeatBrokerInterval": "ms",
    "persistConsumerOffsetInterval": "ms",
    "pollNameServerInterval": "ms",
    "pullInterval": "ms",
    "pullThresholdSizeForQueue": "MiB",
    "pullThresholdSizeForTopic": "MiB",
    "suspendCurrentQueueTimeMillis": "ms",
}
"""Of the properties that clients report: their units, keys of the translations."""

_RATE_COLUMNS: Final[tuple[Column[RateRow], ...]] = (
    Column("topic", "Topic", link=lambda row: path_of("topics", row.topic)),
    Column("consumed_rate", "Consumed per second", Kind.RATE),
    Column("failed_rate", "Failed per second", Kind.RATE),
    Column("failed_last_hour", "Failed in the last hour", Kind.NUMBER),
    Column("consume_time", "Consume time per message (ms)", Kind.RATE),
    Column("pull_rate", "Pulled per second", Kind.RATE),
    Column(
        "pull_time",
        "Pull response time (ms), including long polling",
        Kind.RATE,
        help="The average time from a pull request to the response. A broker holds a request until a message arrives; most clients count that time too.",
    ),
)


class MemberPage:
    """The page of one member."""

    def __init__(self, reads: GroupReads) -> None:
        self._reads = reads

    async def show(self, visit: Visit) -> View:
        """One member: queues, rates, properties; with `stacks=yes` its threads."""
        group, client = visit.path["group"], visit.path["client"]
        with_stacks = visit.arguments.get("stacks") == "yes"
        report = await self._reads.running(group, client, with_stacks=with_stacks)
        queues, rates = queue_rows(report), rate_rows(report)
        return View(
            "Member",
            "groups/member.html",
            {
                "group": group,
                "client": client,
                "properties": dict(sorted(report.properties.items())),
                "units": _UNITS,
                "stacks": report.jstack,
                "with_stacks": with_stacks,
            },
            [
                Table(
                    "queues",
                    ReadQueueRow,
                    queues,
                    _QUEUE_COLUMNS,
                    search=("topic", "broker"),
                    empty="No queue is assigned to the member.",
                ),
                Table("rates", RateRow, rates, _RATE_COLUMNS, empty="The member has not consumed anything yet."),
            ],
            client,
        )


def queue_rows(report: ConsumerRunningInfo) -> list[ReadQueueRow]:
    """The queues that a member reads."""
    return [
        ReadQueueRow(
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            one.commit_offset,
            one.cached_msg_count,
            one.cached_msg_size_in_mib,
            one.locked,
            one.last_pull_timestamp,
            # compat: clients report when they began to read the queue until they have consumed a message.
            one.last_consume_timestamp if one.commit_offset > 0 else None,
        )
        for queue, one in sorted(report.mq_table.items())
    ]


def rate_rows(report: ConsumerRunningInfo) -> list[RateRow]:
    """What a member does with each topic."""
    return [
        RateRow(
            topic,
            one.pull_tps,
            one.pull_rt,
            one.consume_ok_tps,
            one.consume_failed_tps,
            one.consume_rt,
            one.consume_failed_msgs,
        )
        for topic, one in sorted(report.status_table.items())
    ]
