"""One consumer group: its lag by queue, members, subscriptions and settings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headrace.model import names
from headrace.model.consumption import MessageModel
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ConsumerConnection, ConsumerRunningInfo, ConsumeStats
from headrace.protocol.bodies.consumer_state import ProcessQueueInfo
from headrace.protocol.version import version_text
from web.cluster.protection import is_system_group
from web.errors import NotFound
from web.pages.charts import DURATION, NUMBER, RATE, Chart, Line, charts_of
from web.pages.groups.group_list import MODES, OFFLINE, ONLINE, consumption_word
from web.pages.groups.group_reads import GroupReads, Settings
from web.pages.groups.group_settings import forms_of
from web.pages.settings import differences, shared_settings
from web.paths import path_of
from web.routes import View, Visit
from web.sampling.past_members import PastMembers
from web.tables.table import Column, Kind, Table

TYPES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push"}


class QueueRow(msgspec.Struct, frozen=True):
    """How far the group is in one queue."""

    topic: str
    broker: str
    queue: int
    lag: int
    delay: int | None
    """How long ago the group's next message was stored, ms; 0: none waits; None: it could not be read."""
    consumer_offset: int
    broker_offset: int
    consumed_at: int | None
    """When the message before the group's offset was stored; None: there is none, such as after a reset to the first message."""
    client: str | None
    """The member that reads the queue; None: no member reports that it does."""


class MemberRow(msgspec.Struct, frozen=True):
    """A connected client."""

    client: str
    address: str
    language: str
    version: str
    queues: int | None = None
    """How many queues it reads."""
    started: int | None = None
    problem: str = ""
    """Why the member's own report is missing."""


class LeftRow(msgspec.Struct, frozen=True):
    """A client that was a member within the last day and is not connected any more."""

    client: str
    address: str
    seen: int
    """When it was connected last, as of a sample."""
    queues: list[str]
    """Those that it read; empty: unknown."""


class SubscriptionRow(msgspec.Struct, frozen=True):
    """A subscription, and the members that have it."""

    topic: str
    expression: str
    type: str
    members: list[str]
    is_consistent: bool
    """Whether all members have it."""


class SettingsRow(msgspec.Struct, frozen=True):
    """The group's settings at one broker."""

    broker: str
    is_enabled: bool
    may_broadcast: bool
    starts_at_first: bool
    retry_queues: int
    retries: int
    broker_id: int
    slow_broker_id: int
    notifies: bool


SLOW_MS: Final = 10_000
"""From this time lag on, the page explains how fast the members are: messages that are being delivered always lag a little."""
MOST_NAMED: Final = 5
"""So many members or queues a finding names."""


class Finding(msgspec.Struct, frozen=True):
    """Something that an operator should look at: a text of the translations, and its values."""

    text: str
    values: dict[str, Any] = {}
    member: str = ""
    """The member whose threads explain it; empty: none."""


class GroupPage:
    """The page of one group."""

    def __init__(self, reads: GroupReads, past: PastMembers) -> None:
        self._reads = reads
        self._past = past

    async def show(self, visit: Visit) -> View:
        """One group: progress, members, subscriptions, settings."""
        group = visit.path["group"]
        settings, problems = await self._reads.settings()
        connection = await self._reads.members(group)
        stats = await self._reads.progress(group)
        own = settings.get(group, {})
        if not own and not connection.connection_set and not stats.offset_table:
            if problems:
                # It may be known to a broker that could not be read.
                raise NotFound(
                    "none of the reachable brokers has the group {group}",
                    "{problems}",
                    group=group,
                    problems="; ".join(problems),
                )
            raise NotFound(
                "the consumer group {group} does not exist", "Choose one from the list of consumer groups.", group=group
            )
        members, reports, silent = await self._members(group, connection)
        self._past.note_queues(group, {client: queue_names(report) for client, report in reports.items()})
        delays, late = await self._delays(group, stats)
        queues = queue_rows(stats, delays, reports)
        subscriptions = subscription_rows(reports)
        summary = _summary(connection, stats, queues)
        unanswered = [one.client for one in members if one.client and one.client not in reports]
        findings = [
            *find(connection, reports, queues, subscriptions),
            *find_unanswering(connection, unanswered, queues),
            # What a member that did not answer has not consumed says nothing about the others.
            *find_slow_members(reports, [row for row in queues if row.client is not None] if unanswered else queues),
        ]
        tables: list[Table[Any]] = [
            Table(
                "queues",
                QueueRow,
                queues,
                _queue_columns(group, has_members=bool(connection.connection_set)),
                search=("topic", "broker", "client"),
                sort="-lag",
                empty="The group has no offsets: it has not consumed anything yet.",
            ),
            Table(
                "members", MemberRow, members, _member_columns(group), sort="client", empty="No member is connected."
            ),
            Table(
                "left",
                LeftRow,
                self._left(group, connection),
                _LEFT_COLUMNS,
                sort="-seen",
                empty="No member has left within the last 24 hours, as far as the console has seen since its start.",
            ),
            Table(
                "subscriptions",
                SubscriptionRow,
                subscriptions,
                _SUBSCRIPTION_COLUMNS,
                sort="topic",
                empty="No member reports a subscription.",
            ),
            Table(
                "settings",
                SettingsRow,
                settings_rows(own),
                _SETTINGS_COLUMNS,
                sort="broker",
                empty="No broker has settings for the group.",
            ),
        ]
        forms = forms_of(own)
        return View(
            "Consumer group",
            "groups/group.html",
            {
                "group": group,
                "summary": summary,
                "findings": findings,
                "has_unreported": any(row.client is None for row in queues) and (not reports or bool(unanswered)),
                "is_system": is_system_group(group),
                "form": shared_settings(forms),
                "differences": differences(forms, {**_SETTING_LABELS, "is_enabled": "Consumption allowed"}),
                "consumption": consumption_of(own),
                "charts": charts_of(
                    visit,
                    Chart("Lag", NUMBER, (Line(f"group.lag/{group}", "Lag", value=summary["lag"]),)),
                    Chart("Time lag", DURATION, (Line(f"group.time/{group}", "Time lag", value=summary["delay"]),)),
                    Chart("Messages per second", RATE, (Line(f"group.out/{group}", "Delivered"),)),
                    Chart("Dead letters", NUMBER, (Line(f"group.dead/{group}", "Dead letters"),)),
                ),
            },
            tables,
            group,
            [*problems, *silent, *late],
        )

    async def _members(
        self, group: str, connection: ConsumerConnection
    ) -> tuple[list[MemberRow], dict[str, ConsumerRunningInfo], list[str]]:
        """The rows of the members, their reports by client id, and which members did not report."""
        ids = sorted({one.client_id for one in connection.connection_set if one.client_id is not None})
        answers = await self._reads.cluster.map(lambda client: self._reads.running(group, client), ids)
        reports: dict[str, ConsumerRunningInfo] = {}
        failures: dict[str, str] = {}
        for client, answer in zip(ids, answers, strict=True):
            if isinstance(answer, Exception):
                failures[client] = str(answer)
            else:
                reports[client] = answer
        rows = [
            member_row(
                one.client_id or "",
                one.client_addr or "",
                one.language.name,
                version_text(one.version),
                reports,
                failures,
            )
            for one in connection.connection_set
        ]
        return rows, reports, [f"{client}: {failure}" for client, failure in failures.items()]

    def _left(self, group: str, connection: ConsumerConnection) -> list[LeftRow]:
        connected = {one.client_id or "" for one in connection.connection_set}
        return [
            LeftRow(one.client, one.address, int(one.seen_s * 1000), list(one.queues))
            for one in self._past.left(group, connected)
        ]

    async def _delays(self, group: str, stats: ConsumeStats) -> tuple[dict[MessageQueue, int], list[str]]:
        """How long the group's next messages have waited, and what could not be read."""
        topics = sorted({queue.topic for queue in stats.offset_table})
        answers = await self._reads.cluster.map(lambda topic: self._reads.delays(group, topic), topics)
        delays: dict[MessageQueue, int] = {}
        problems: list[str] = []
        for topic, answer in zip(topics, answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{topic}: {answer}")
            else:
                delays.update(answer)
        return delays, problems


def member_row(
    client: str,
    address: str,
    language: str,
    version: str,
    reports: Mapping[str, ConsumerRunningInfo],
    failures: Mapping[str, str],
) -> MemberRow:
    """The row of a connected client, with what it reports about itself."""
    report = reports.get(client)
    if report is None:
        return MemberRow(client, address, language, version, problem=failures.get(client, ""))
    return MemberRow(
        client,
        address,
        language,
        version,
        len(report.mq_table),
        _number(report.properties.get("PROP_CONSUMER_START_TIMESTAMP")),
    )


def queue_names(report: ConsumerRunningInfo) -> list[str]:
    """Topic, broker and number of the queues that a member reads, without those of retries."""
    queues = sorted(queue for queue in report.mq_table if not names.is_retry_topic(queue.topic))
    return [f"{queue.topic} {queue.broker_name} {queue.queue_id}" for queue in queues]


def queue_rows(
    stats: ConsumeStats, delays: Mapping[MessageQueue, int], reports: Mapping[str, ConsumerRunningInfo]
) -> list[QueueRow]:
    """The rows of the group's queues, in the order of topic, broker and queue.

    A delay may be a few seconds older than the offsets: none applies if no message waits.
    """
    owners = {queue: client for client, report in sorted(reports.items()) for queue in report.mq_table}
    rows: list[QueueRow] = []
    for queue, one in sorted(stats.offset_table.items()):
        lag = max(0, one.broker_offset - one.consumer_offset)
        rows.append(
            QueueRow(
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                lag,
                delays.get(queue) if lag else 0,
                one.consumer_offset,
                one.broker_offset,
                one.last_timestamp if one.last_timestamp > 0 else None,
                owners.get(queue),
            )
        )
    return rows


def subscription_rows(reports: Mapping[str, ConsumerRunningInfo]) -> list[SubscriptionRow]:
    """The distinct subscriptions that members report, with those that have them."""
    members: dict[tuple[str, str, str], list[str]] = {}
    for client, report in sorted(reports.items()):
        for one in report.subscription_set:
            members.setdefault((one.topic, one.sub_string, one.expression_type or "TAG"), []).append(client)
    return [
        SubscriptionRow(topic, expression, kind, clients, len(clients) == len(reports))
        for (topic, expression, kind), clients in sorted(members.items())
    ]


def settings_rows(settings: Settings) -> list[SettingsRow]:
    """The group's settings, a row for each broker."""
    return [
        SettingsRow(
            broker,
            config.consume_enable,
            config.consume_broadcast_enable,
            config.consume_from_min_enable,
            config.retry_queue_count,
            config.retry_max_times,
            config.broker_id,
            config.which_broker_when_consume_slowly,
            config.notify_consumer_ids_changed_enable,
        )
        for broker, config in sorted(settings.items())
    ]


def find(
    connection: ConsumerConnection,
    reports: Mapping[str, ConsumerRunningInfo],
    queues: Sequence[QueueRow],
    subscriptions: Sequence[SubscriptionRow],
) -> list[Finding]:
    """What an operator should look at."""
    counts = Counter(one.client_id for one in connection.connection_set if one.client_id)
    found = [
        Finding(
            "{count} connections use the client id {client}: they are assigned the same queues and consume messages twice. "
            "Give each instance its own id.",
            {"count": count, "client": client},
        )
        for client, count in sorted(counts.items())
        if count > 1
    ]
    topics = sorted({row.topic for row in subscriptions if not row.is_consistent})
    if topics:
        found.append(
            Finding(
                "The members' subscriptions to {topics} differ: some messages are lost. "
                "Give all members the same subscriptions.",
                {"topics": ", ".join(topics)},
            )
        )
    is_complete = len(reports) == len(counts)
    is_divided = connection.message_model is MessageModel.CLUSTERING
    unread = [row for row in queues if row.client is None and not names.is_retry_topic(row.topic)]
    if reports and is_complete and is_divided and unread:
        found.append(
            Finding(
                "{count} queues have no consumer, such as queue {queue} of {topic} at {broker}. "
                "If this lasts longer than 20 s, check that the members subscribe to the topic and can reach all its brokers.",
                {"count": len(unread), "queue": unread[0].queue, "topic": unread[0].topic, "broker": unread[0].broker},
            )
        )
    return found


def find_unanswering(
    connection: ConsumerConnection, unanswered: Sequence[str], queues: Sequence[QueueRow]
) -> list[Finding]:
    """Connected members that do not answer, if messages have waited for longer than `SLOW_MS` in queues that no other member reports."""
    late = [row for row in queues if row.client is None and (row.delay or 0) >= SLOW_MS]
    if not unanswered or not late or connection.message_model is not MessageModel.CLUSTERING:
        return []
    return [
        Finding(
            "{members} did not answer. No other member reports these queues, in which messages wait: {queues}. "
            "Check whether the process is suspended, overloaded or unreachable.",
            {"members": _some(sorted(set(unanswered))), "queues": _queue_names(late)},
        )
    ]


def find_slow_members(reports: Mapping[str, ConsumerRunningInfo], queues: Sequence[QueueRow]) -> list[Finding]:
    """Which members are stuck, and how fast the others are, if messages have waited for longer than `SLOW_MS`.

    Rates and times are those of the last minute. The others are not reported if only the stuck members' queues wait.
    """
    stuck = {client: found for client, report in sorted(reports.items()) if (found := _stuck(client, report, queues))}
    rest = [row for row in queues if row.client not in stuck]
    others = {client: report for client, report in reports.items() if client not in stuck}
    findings = list(stuck.values())[:MOST_NAMED]
    if len(stuck) > MOST_NAMED:
        left_out = {"count": len(stuck) - MOST_NAMED}
        findings.append(Finding("{count} more members have finished no message for at least 10 s.", left_out))
    return [*findings, *_rates(others, rest)]


def _stuck(client: str, report: ConsumerRunningInfo, queues: Sequence[QueueRow]) -> Finding | None:
    """That a member does not finish the messages that it has pulled; None if it does.

    If messages wait in other queues too, and those move, its threads are busy there and these queues wait for their turn.
    Ages are those of the member's own clock, of which its newest time is taken: it pulls all the time, or every 15 s if nothing is new.
    """
    times = [max(one.last_pull_timestamp, one.last_consume_timestamp) for one in report.mq_table.values()]
    now = max(times, default=0)
    late = [row for row in queues if row.client == client and (row.delay or 0) >= SLOW_MS]
    still: list[QueueRow] = []
    states: list[ProcessQueueInfo] = []
    is_busy = False
    for row in late:
        one = report.mq_table.get(MessageQueue(row.topic, row.broker, row.queue), ProcessQueueInfo())
        pulled = one.cached_msg_count + one.transaction_msg_count
        if not one.last_consume_timestamp:
            continue
        if now - one.last_consume_timestamp < SLOW_MS:
            is_busy = True
        elif pulled:
            still.append(row)
            states.append(one)
    if is_busy:
        return None
    if not still:
        statuses = report.status_table.values()
        if not late or not statuses or any(one.consume_ok_tps + one.consume_failed_tps for one in statuses):
            return None
        return Finding(
            "{client} finished no message in the last minute. Its queues that do not move: {queues}. "
            "See the stacks of its threads.",
            {"client": client, "queues": _queue_names(late)},
            client,
        )
    return Finding(
        "{client} has pulled {pulled} messages and finished none of them for {age:duration}. Its queues that do not move: {queues}. "
        "See the stacks of its threads.",
        {
            "client": client,
            "pulled": f"{sum(one.cached_msg_count + one.transaction_msg_count for one in states):,}",
            "age": now - max(one.last_consume_timestamp for one in states),
            "queues": _queue_names(still),
        },
        client,
    )


def _queue_names(rows: Sequence[QueueRow]) -> str:
    """Topic, broker and number of the first queues."""
    return _some([f"{row.topic} {row.broker} {row.queue}" for row in rows])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (f", … ({len(names)})" if len(names) > MOST_NAMED else "")


def _rates(reports: Mapping[str, ConsumerRunningInfo], queues: Sequence[QueueRow]) -> list[Finding]:
    """How fast members are that are not stuck."""
    waiting = sum(row.lag for row in queues)
    statuses = [status for report in reports.values() for status in report.status_table.values()]
    if not statuses or max((row.delay or 0 for row in queues), default=0) < SLOW_MS:
        return []
    per_second = sum(status.consume_ok_tps + status.consume_failed_tps for status in statuses)
    weights = [(status.consume_ok_tps + status.consume_failed_tps, status.consume_rt) for status in statuses]
    values: dict[str, Any] = {"members": len(reports), "waiting": f"{waiting:,}"}
    if per_second <= 0:
        text = (
            "{waiting} messages wait, and the connected members ({members}) finished none in the last minute: "
            "see the stacks of their threads on their pages."
        )
        return [Finding(text, values)]
    each_ms = sum(weight * took_ms for weight, took_ms in weights) / per_second
    values |= {"rate": f"{per_second:,.1f}", "each": f"{each_ms:,.1f}"}
    threads = [_number(report.properties.get("PROP_THREADPOOL_CORE_SIZE")) for report in reports.values()]
    if all(threads):
        values["threads"] = sum(count or 0 for count in threads)
        text = (
            "{waiting} messages wait. The members ({members}) consume {rate} messages per second: {each} ms per message "
            "with {threads} threads. If the lag grows, add members or threads, or make the handler faster."
        )
    else:
        text = (
            "{waiting} messages wait. The members ({members}) consume {rate} messages per second: {each} ms per message. "
            "If the lag grows, add members or threads, or make the handler faster."
        )
    return [Finding(text, values)]


def consumption_of(settings: Settings) -> str | None:
    """Whether brokers answer the group's pulls: a word; None without settings."""
    if not settings:
        return None
    enabled = {config.consume_enable for config in settings.values()}
    return "paused on some brokers" if len(enabled) > 1 else consumption_word(is_enabled=True in enabled)


def _summary(connection: ConsumerConnection, stats: ConsumeStats, queues: Sequence[QueueRow]) -> dict[str, Any]:
    is_online = bool(connection.connection_set)
    delays = [row.delay for row in queues if row.delay is not None]
    return {
        "state": ONLINE if is_online else OFFLINE,
        "members": len(connection.connection_set),
        "mode": MODES.get(connection.message_model or "") if is_online else None,
        "type": TYPES.get(connection.consume_type or "") if is_online else None,
        "lag": sum(row.lag for row in queues),
        "delay": max(delays, default=None) if queues else 0,
        "rate": stats.consume_tps,
    }


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 19 else None


def _queue_columns(group: str, *, has_members: bool) -> tuple[Column[QueueRow], ...]:
    return (
        Column("topic", "Topic", link=lambda row: path_of("topics", row.topic)),
        Column("broker", "Broker"),
        Column("queue", "Queue", Kind.NUMBER),
        Column("lag", "Lag", Kind.NUMBER, help="Messages that the group has not consumed yet."),
        Column("delay", "Time lag", Kind.DURATION, help="How long ago the group's next message was stored."),
        Column(
            "client",
            "Read by",
            link=lambda row: member_path(group, row.client) if row.client else None,
            help="The member to which the queue is assigned, as members report it.",
            none="not reported by members" if has_members else NOBODY,
        ),
        Column("consumer_offset", "Consumer offset", Kind.NUMBER, help="The offset at which the group continues."),
        Column("broker_offset", "Max offset", Kind.NUMBER, help="The offset of the next message that is stored."),
        Column(
            "consumed_at",
            "Consumed up to",
            Kind.TIME,
            help="When the message before the consumer offset was stored.",
            none="unknown",
        ),
    )


NOBODY: Final = "no member connected"
"""Of a queue: who reads it, if the group has no member."""


def member_path(group: str, client: str) -> str:
    """The page of a member."""
    return path_of("groups", group, "members", client)


def _member_columns(group: str) -> tuple[Column[MemberRow], ...]:
    return (
        Column("client", "Client id", link=lambda row: member_path(group, row.client) if row.client else None),
        Column("address", "Address"),
        Column("language", "Language"),
        Column("version", "Version"),
        Column("queues", "Queues", Kind.NUMBER, help="Number of queues assigned to the member."),
        Column("started", "Started", Kind.TIME),
        Column("problem", "Problem", is_shown_if_any=True),
    )


_LEFT_COLUMNS: Final[tuple[Column[LeftRow], ...]] = (
    Column("client", "Client id"),
    Column("address", "Address"),
    Column("seen", "Last seen", Kind.TIME, help="The console looks every minute which members are connected."),
    Column(
        "queues",
        "Queues",
        Kind.LIST,
        help="Those that the member read when a page of the group was last opened. Empty if none was opened.",
    ),
)
_SUBSCRIPTION_COLUMNS: Final[tuple[Column[SubscriptionRow], ...]] = (
    Column("topic", "Topic", link=lambda row: path_of("topics", row.topic)),
    Column("expression", "Expression"),
    Column("type", "Type"),
    Column(
        "is_consistent", "In all members", Kind.YES_NO, help="All members of a group must have the same subscriptions."
    ),
    Column("members", "Members", Kind.LIST),
)

_SETTINGS_COLUMNS: Final[tuple[Column[SettingsRow], ...]] = (
    Column("broker", "Broker"),
    Column(
        "is_enabled",
        "Consumption",
        Kind.WORD,
        says=lambda row: (consumption_word(is_enabled=row.is_enabled), {}),
        help="Whether brokers answer the pulls of the group (consumeEnable).",
    ),
    Column("may_broadcast", "May consume in broadcasting mode", Kind.YES_NO),
    Column(
        "starts_at_first",
        "May start at the min offset",
        Kind.YES_NO,
        help="consumeFromMinEnable: Headrace's brokers store it, but do not check it.",
    ),
    Column(
        "retries",
        "Maximum retries",
        Kind.NUMBER,
        help="How often a message is retried before it becomes a dead letter.",
    ),
    Column("retry_queues", "Queues of the retry topic", Kind.NUMBER),
    Column(
        "broker_id",
        "Broker id to read from",
        Kind.NUMBER,
        help="Within each broker name, the broker from which members read: 0 is the master, others are slaves.",
    ),
    Column(
        "slow_broker_id",
        "Broker id to read from when far behind",
        Kind.NUMBER,
        help="Members that are so far behind that their messages are no longer in memory are told to read from this broker.",
    ),
    Column(
        "notifies",
        "Notify members when others join or leave",
        Kind.YES_NO,
        help="Members then redistribute the queues at once, and otherwise within 20 seconds.",
    ),
)
_SETTING_LABELS: Final = {column.key: column.label for column in _SETTINGS_COLUMNS[1:]}
