"""Topics: the list, one topic with its queues and consumer groups, and how to create, change and delete them and send a message."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from headrace import BrokerError, Message, MessageInvalid, RouteNotFound
from headrace.errors import ConfigError
from headrace.model import names
from headrace.model.delay_level import parse_delay_levels
from headrace.model.permission import READ, WRITE, permission_text
from headrace.model.topic_config import TopicConfig
from headrace.protocol.bodies import TopicStatsTable
from web.cluster.cluster import Cluster
from web.cluster.protection import check_topic
from web.cluster.topic_kinds import DEAD_LETTER, DELAY, NORMAL, RESERVED, RETRY, SYSTEM, TRANSACTION, topic_kind
from web.cluster.topic_reader import TopicReader
from web.errors import Invalid, NotFound, QueryFailed
from web.pages.charts import FURTHEST_GROUPS, NUMBER, RANGE_ARGUMENT, RATE, Chart, Charts, Line, charts_of
from web.pages.cluster.cluster_reads import ClusterReads
from web.pages.cluster.stopped import StoppedBroker, stopped_brokers
from web.pages.groups.group_reads import GroupReads
from web.pages.settings import differences, shared_settings
from web.pages.topic_consumers import TopicConsumers
from web.paths import path_of
from web.routes import Change, Outcome, Problem, Query, Route, View, Visit
from web.sampling.sample import Sample, received_by_topic
from web.sampling.sampler import PAGE_TIMEOUT_S, Sampler
from web.tables.table import Choice, Column, Kind, Table

KINDS: Final = Choice(
    "kind",
    "Kind",
    (
        (NORMAL, "Normal"),
        (RETRY, "Retry"),
        (DEAD_LETTER, "Dead letters"),
        (DELAY, "Delayed"),
        (TRANSACTION, "Transaction"),
        (SYSTEM, "System"),
        ("all", "All"),
    ),
)
_PERMISSIONS: Final = {"RW": READ | WRITE, "R": READ, "W": WRITE}
_PERMISSION_WORDS: Final = {
    "RW-": "Read and write",
    "R--": "Read only",
    "-W-": "Write only",
    "---": "No access",
    "RWX": "Read and write, a template for new topics",
}
"""The words of the forms for what brokers have."""
_MOST_QUEUES: Final = 1_024
_MENU: Final = "Topics"
_NO_SAMPLE: Final = (
    "the brokers did not answer within {seconds} s, so topics cannot be sorted by the messages that they received"
)
_SETTINGS: Final = {"write_queues": "Write queues", "read_queues": "Read queues", "permission": "Permission"}
"""What the form of a topic changes: headings, by the names of its fields."""


class TopicRow(msgspec.Struct, frozen=True):
    """One topic, over all brokers that have it."""

    topic: str
    kind: str
    read_queues: int | None
    """None: no broker that could be read has its settings."""
    write_queues: int | None
    permission: str
    brokers: list[str]
    received: int | None = None
    """Messages since the start of the brokers, in the last sample. None: unknown."""
    messages: int | None = None
    last_write: int | None = None
    groups: dict[str, int] | None = None
    """The consumer groups with stored offsets, and how many messages each is behind."""
    problem: str = ""
    """Why the enriched fields are missing."""


class QueueRow(msgspec.Struct, frozen=True):
    """One queue."""

    broker: str
    queue: int
    min_offset: int
    max_offset: int
    messages: int
    last_write: int


class TopicGroupRow(msgspec.Struct, frozen=True):
    """A consumer group of the topic."""

    group: str
    lag: int
    queues: int
    delay: int | None = None
    """How long ago the oldest message that waits was stored, ms; 0: none waits."""
    problem: str = ""
    """Why the delay is missing."""


class BrokerRow(msgspec.Struct, frozen=True):
    """The topic's settings at one broker."""

    broker: str
    address: str
    read_queues: int
    write_queues: int
    permission: str


NEW_TOPIC: Final = TopicConfig("")
"""What a new topic has unless the form says otherwise: 8 queues, as in RocketMQ's tools."""


class TopicForm(msgspec.Struct, forbid_unknown_fields=True):
    """The settings of a topic. `broker`: the name of one, or empty for all masters."""

    topic: str
    read_queues: int | None = None
    """None: as many as write queues. With fewer, nobody consumes the others."""
    write_queues: int = NEW_TOPIC.write_queue_count
    permission: str = "RW"
    broker: str = ""


class TopicSettingsForm(msgspec.Struct, forbid_unknown_fields=True):
    """New settings of a topic that exists."""

    read_queues: int
    write_queues: int
    permission: str
    broker: str = ""


class DeleteTopicForm(msgspec.Struct, forbid_unknown_fields=True):
    """`confirm`: the topic's name, typed again."""

    confirm: str


class SendForm(msgspec.Struct, forbid_unknown_fields=True):
    """A message. `properties`: one `name=value` a line."""

    body: str
    tags: str = ""
    keys: str = ""
    properties: str = ""
    delay_level: int = 0


def _list_columns() -> tuple[Column[TopicRow], ...]:
    return (
        Column("topic", "Topic", link=lambda row: path_of("topics", row.topic)),
        Column("kind", "Kind", is_word=True),
        Column("write_queues", "Write queues", Kind.NUMBER),
        Column("read_queues", "Read queues", Kind.NUMBER),
        Column(
            "permission",
            "Permission",
            says=lambda row: _said(row.permission),
            help="R: consumers may read. W: producers may write. X: a template for new topics.",
        ),
        Column("brokers", "Brokers", Kind.LIST),
        Column(
            "received",
            "Received since broker start",
            Kind.NUMBER,
            help="Messages received since the brokers started. Apache's brokers do not count them: all that the topic ever had, if it has consumers.",
        ),
        Column("messages", "Messages", Kind.NUMBER, is_enriched=True, help="Stored messages in all queues."),
        Column("last_write", "Last message", Kind.TIME, is_enriched=True),
        Column(
            "groups",
            "Consumer groups (lag)",
            Kind.LIST,
            is_enriched=True,
            help="Groups with stored offsets, and the lag of each.",
            links=lambda row: [
                (f"{group} ({lag:,})", path_of("groups", group)) for group, lag in (row.groups or {}).items()
            ],
        ),
        Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
    )


def _queue_columns(topic: str) -> tuple[Column[QueueRow], ...]:
    return (
        Column("broker", "Broker"),
        Column(
            "queue",
            "Queue",
            Kind.NUMBER,
            link=lambda row: path_of("topics", topic, "consumers", broker=row.broker, queue=row.queue),
            help="Shows who consumes the queue.",
        ),
        Column("min_offset", "Min offset", Kind.NUMBER),
        Column("max_offset", "Max offset", Kind.NUMBER),
        Column("messages", "Messages", Kind.NUMBER),
        Column("last_write", "Last message", Kind.TIME),
    )


_BROKER_COLUMNS: Final[tuple[Column[BrokerRow], ...]] = (
    Column("broker", "Broker"),
    Column("address", "Address"),
    Column("write_queues", "Write queues", Kind.NUMBER),
    Column("read_queues", "Read queues", Kind.NUMBER),
    Column("permission", "Permission", says=lambda row: _said(row.permission)),
)


class TopicPages:
    """The pages of topics."""

    def __init__(self, cluster: Cluster, sampler: Sampler) -> None:
        self._cluster = cluster
        self._sampler = sampler
        self._reader = TopicReader(cluster)
        self._groups = GroupReads(cluster)
        self._brokers = ClusterReads(cluster)
        self._consumers = TopicConsumers(self._reader, self._groups)

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query("/topics", self.list_topics, "List the topics.", menu=_MENU, shortcut="t", arguments=KINDS.argument),
            Query(
                "/topics/<topic:str>",
                self.show_topic,
                "Show a topic, its queues and its groups.",
                section=_MENU,
                arguments=RANGE_ARGUMENT,
            ),
            Query(
                "/topics/<topic:str>/consumers",
                self._consumers.show,
                "Show who consumes each queue of a topic.",
                section=_MENU,
                arguments={
                    "broker": "With `queue`: only this queue, by the name of its broker.",
                    "queue": "The number of the queue.",
                },
            ),
            Change(
                "/topics", TopicForm, self.create, "topic.create", "Create a topic.", subject=lambda _, form: form.topic
            ),
            Change("/topics/<topic:str>", TopicSettingsForm, self.update, "topic.update", "Change a topic's settings."),
            Change("/topics/<topic:str>/delete", DeleteTopicForm, self.delete, "topic.delete", "Delete a topic."),
            Change("/topics/<topic:str>/messages", SendForm, self.send, "message.send", "Send a message."),
        ]

    # ---- queries

    async def list_topics(self, _visit: Visit) -> View:
        """All topics of the cluster."""
        topics, system, configs, masters, sample = await asyncio.gather(
            self._reader.names(),
            self._reader.system_names(),
            self._reader.configs(),
            self._reader.masters(),
            self._sampler.for_page(),
        )
        received: Mapping[str, int] = {} if sample is None else received_by_topic(sample.brokers)
        problems: list[str | Problem] = [*configs.problems]
        if sample is None:
            problems.append(Problem(_NO_SAMPLE, {"seconds": f"{PAGE_TIMEOUT_S:g}"}))
        table = Table(
            "topics",
            TopicRow,
            [_row(topic, system, configs.by_topic.get(topic, {}), received.get(topic)) for topic in topics],
            _list_columns(),
            search=("topic", "brokers"),
            choices=(KINDS,),
            choose=_is_of_kind,
            sort="topic",
            enrich=lambda rows: self._add_statistics(rows, are_brokers_known=not configs.problems),
            empty="The cluster has no topics.",
        )
        data = {
            "brokers": sorted(masters),
            "new": _settings(NEW_TOPIC),
            "sampled_at": None if sample is None else int(sample.time_s * 1000),
        }
        return View("Topics", "topics/list.html", data, [table], problems=problems)

    async def show_topic(self, visit: Visit) -> View:
        """One topic."""
        topic = visit.path["topic"]
        configs = await self._reader.configs()
        own = configs.by_topic.get(topic, {})
        if not own and topic not in await self._reader.names():
            raise NotFound("the topic {topic} does not exist", "Check its name in the list of topics.", topic=topic)
        kind = topic_kind(topic, await self._reader.system_names())
        masters = await self._reader.masters()
        stats, sample = await asyncio.gather(self._reader.statistics(topic), self._sampler.for_page())
        offsets = await self._reader.group_offsets({topic})
        queues = [
            QueueRow(
                queue.broker_name,
                queue.queue_id,
                one.min_offset,
                one.max_offset,
                one.max_offset - one.min_offset,
                one.last_update_timestamp,
            )
            for queue, one in sorted(stats.offset_table.items())
        ]
        groups = [
            TopicGroupRow(group, lag, len(offsets.by_topic[topic][group]))
            for group, lag in offsets.lags(topic, stats.offset_table).items()
        ]
        brokers = [
            BrokerRow(
                broker,
                masters.get(broker, ""),
                config.read_queue_count,
                config.write_queue_count,
                permission_text(config.permission),
            )
            for broker, config in sorted(own.items())
        ]
        group_columns: tuple[Column[TopicGroupRow], ...] = (
            Column("group", "Consumer group", link=lambda row: path_of("groups", row.group)),
            Column("lag", "Lag", Kind.NUMBER, help="Messages that the group has not consumed yet."),
            Column(
                "delay",
                "Time lag",
                Kind.DURATION,
                is_enriched=True,
                help="How long ago the oldest message that the group has not consumed was stored.",
            ),
            Column("queues", "Queues", Kind.NUMBER),
            Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
        )
        settings = {broker: _settings(config) for broker, config in own.items()}
        stopped, _ = await self._stopped(topic)
        data = {
            "topic": topic,
            "kind": kind,
            "messages": sum(row.messages for row in queues),
            "settings": shared_settings(settings) or _settings(TopicConfig(topic)),
            "differences": differences(settings, _SETTINGS),
            "brokers_with_topic": sorted(own),
            "is_sendable": topic not in names.FORBIDDEN_TO_SEND and kind != DEAD_LETTER,
            "is_changeable": kind not in RESERVED,
            "charts": _charts(visit, topic, groups, sample),
            "stopped": stopped,
            "delay_levels": await self._delay_levels(own),
        }
        tables: list[Table[Any]] = [
            Table("queues", QueueRow, queues, _queue_columns(topic), empty="The topic has no queues."),
            Table(
                "groups",
                TopicGroupRow,
                groups,
                group_columns,
                sort="-lag",
                enrich=lambda rows: self._add_delays(topic, rows),
                empty="No consumer group has stored offsets.",
            ),
            Table("brokers", BrokerRow, brokers, _BROKER_COLUMNS, empty="No broker has settings for the topic."),
        ]
        return View("Topic", "topics/show.html", data, tables, topic, [*configs.problems, *offsets.problems])

    async def _add_delays(self, topic: str, rows: Sequence[TopicGroupRow]) -> list[TopicGroupRow]:
        """One request for each broker and row with waiting messages."""
        behind = [row.group for row in rows if row.lag]
        answers = await self._cluster.map(lambda group: self._groups.delays(group, topic), behind)
        found = dict(zip(behind, answers, strict=True))
        enriched: list[TopicGroupRow] = []
        for row in rows:
            answer = found.get(row.group, {})
            enriched.append(
                msgspec.structs.replace(row, problem=str(answer))
                if isinstance(answer, Exception)
                else msgspec.structs.replace(row, delay=max(answer.values(), default=0))
            )
        return enriched

    async def _add_statistics(self, rows: Sequence[TopicRow], *, are_brokers_known: bool) -> Sequence[TopicRow]:
        """Two requests for each broker and one for each row and broker. `are_brokers_known`: the rows have all brokers of their topics."""

        async def statistics(row: TopicRow) -> TopicStatsTable:
            return await self._reader.statistics(row.topic, row.brokers if are_brokers_known else ())

        offsets, answers = await asyncio.gather(
            self._reader.group_offsets({row.topic for row in rows}), self._cluster.map(statistics, rows)
        )
        enriched: list[TopicRow] = []
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, Exception):
                enriched.append(msgspec.structs.replace(row, problem=str(answer)))
                continue
            queues = answer.offset_table
            enriched.append(
                msgspec.structs.replace(
                    row,
                    messages=sum(queue.max_offset - queue.min_offset for queue in queues.values()),
                    last_write=max((queue.last_update_timestamp for queue in queues.values()), default=0),
                    groups=offsets.lags(row.topic, queues),
                    problem="; ".join(offsets.problems),
                )
            )
        return enriched

    # ---- changes

    async def create(self, _visit: Visit, form: TopicForm) -> Outcome:
        """Creates a topic; one that exists is an error, because this would replace its settings."""
        if names.topic_problem(form.topic) is not None:
            raise Invalid(
                "{topic} is not a valid topic name",
                "Use 1 to 127 of these characters: a-z, A-Z, 0-9, _ - % |",
                topic=repr(form.topic[:200]),
            )
        if form.topic in await self._reader.names():
            raise Invalid("the topic {topic} already exists", "Change its settings on its page.", topic=form.topic)
        check_topic(form.topic, await self._reader.system_names())
        config = _config(form.topic, form)
        await self._put(config, form.broker)
        return Outcome(
            "The topic {topic} was created.",
            {"topic": form.topic},
            path_of("topics", form.topic),
            after={**_settings(config), "broker": form.broker},
        )

    async def update(self, visit: Visit, form: TopicSettingsForm) -> Outcome:
        """Changes a topic's queues and permission, at one broker or at all that have it; its other settings stay."""
        topic = visit.path["topic"]
        self._cluster.forget()  # settings that were changed since must not be written back
        configs = await self._reader.configs()
        before = configs.by_topic.get(topic, {})
        if not form.broker and configs.problems:
            raise Invalid(
                "; ".join(configs.problems),
                "Nothing was changed: not all brokers could be read. Choose one broker, or try again.",
            )
        if not before:
            raise NotFound("the topic {topic} does not exist", "Check its name in the list of topics.", topic=topic)
        check_topic(topic, await self._reader.system_names())
        config = _config(topic, form)
        targets = [form.broker] if form.broker else sorted(before)
        for broker in targets:
            await self._put(_changed(before.get(broker, config), config), broker)
        return Outcome(
            "The settings of the topic {topic} were changed.",
            {"topic": topic},
            path_of("topics", topic),
            before={broker: _settings(before[broker]) for broker in targets if broker in before},
            after=dict.fromkeys(targets, _settings(config)),
        )

    async def delete(self, visit: Visit, form: DeleteTopicForm) -> Outcome:
        """Deletes a topic with its messages."""
        topic = visit.path["topic"]
        if form.confirm != topic:
            raise Invalid(
                "{confirm} is not the name of this topic",
                "Type {topic} to delete it.",
                confirm=repr(form.confirm[:200]),
                topic=topic,
            )
        before = (await self._reader.configs()).by_topic.get(topic, {})
        if not before and names.topic_problem(topic) is not None:  # which brokers refuse
            raise NotFound("the topic {topic} does not exist", "Check its name in the list of topics.", topic=topic)
        check_topic(topic, await self._reader.system_names())
        await self._cluster.admin.delete_topic(topic)
        return Outcome(
            "The topic {topic} was deleted.",
            {"topic": topic},
            "/topics",
            before={broker: _settings(config) for broker, config in before.items()},
        )

    async def send(self, visit: Visit, form: SendForm) -> Outcome:
        """Sends a message."""
        topic = visit.path["topic"]
        try:
            message = Message(
                topic,
                form.body,
                form.tags or None,
                form.keys or None,
                properties=_properties(form.properties),
                delay_level=form.delay_level,
            )
            result = await (await self._cluster.producer()).send(message)
        except (MessageInvalid, ConfigError) as error:
            raise Invalid(str(error)) from error
        except (RouteNotFound, BrokerError) as error:
            raise await self._reason(topic, error) from error
        return Outcome(
            "The message {id} was stored in queue {queue} at offset {offset}.",
            {
                "id": result.message_id,
                "queue": f"{result.queue.broker_name}/{result.queue.queue_id}",
                "offset": result.queue_offset,
            },
            path_of("topics", topic),
            details=path_of("messages", result.offset_message_id),
            after={"message_id": result.message_id, "bytes": len(message.body), "tags": form.tags, "keys": form.keys},
        )

    async def _stopped(self, topic: str) -> tuple[list[StoppedBroker], bool]:
        """The brokers of a topic that get no messages, and whether these are all of its brokers."""
        own = (await self._reader.configs()).by_topic.get(topic, {})
        masters = {broker: address for broker, address in (await self._reader.masters()).items() if broker in own}
        stopped = await stopped_brokers(self._brokers, masters)
        return stopped, len(stopped) == len(masters)

    async def _reason(self, topic: str, error: Exception) -> Exception:
        """Why a message was not sent: that writes are stopped, or the error."""
        stopped, is_everywhere = await self._stopped(topic)
        if not (stopped and is_everywhere and all(one.is_by_operator for one in stopped)):
            return error
        return QueryFailed(
            "writes to {brokers} are stopped",
            "Allow writes again, or wait until they are allowed.",
            brokers=", ".join(one.broker for one in stopped),
        )

    async def _delay_levels(self, brokers: Iterable[str]) -> list[tuple[int, int]]:
        """The numbers of the delay levels and their delays (ms); empty if they are unknown, or differ between these brokers."""
        masters = await self._reader.masters()
        addresses = [masters[broker] for broker in brokers if broker in masters]
        configs = await self._cluster.map(self._brokers.config, addresses)
        texts = {None if isinstance(one, Exception) else one.get("messageDelayLevel") for one in configs}
        [text] = texts if len(texts) == 1 else [None]
        try:
            return list(enumerate(parse_delay_levels(text or ""), start=1))
        except ValueError:
            return []

    async def _put(self, config: TopicConfig, broker: str) -> None:
        masters = await self._reader.masters()
        if broker and broker not in masters:
            raise Invalid(
                "no master of the broker {broker} is registered", "Choose one of the brokers shown.", broker=broker[:80]
            )
        try:
            await self._cluster.admin.update_topic(config, broker=masters[broker] if broker else None)
        except ConfigError as error:
            raise Invalid(str(error)) from error


def _charts(visit: Visit, topic: str, groups: Sequence[TopicGroupRow], sample: Sample | None) -> Charts:
    """The lags begin with those of the table, and what the groups had not consumed of other topics when the sample was taken."""
    furthest = sorted(groups, key=lambda row: -row.lag)
    elsewhere: Counter[str] = Counter()
    for broker in () if sample is None else sample.brokers:
        for one in broker.progress:
            elsewhere[one.group] += one.lag if one.topic != topic else 0
    return charts_of(
        visit,
        Chart(
            "Messages per second",
            RATE,
            (Line(f"topic.in/{topic}", "Received"), Line(f"topic.out/{topic}", "Delivered")),
        ),
        Chart(
            "Total lag of these groups, in all their topics",
            NUMBER,
            tuple(
                Line(
                    f"group.lag/{row.group}",
                    row.group,
                    is_name=True,
                    value=None if sample is None else row.lag + elsewhere[row.group],
                )
                for row in furthest
            ),
            FURTHEST_GROUPS,
        ),
    )


def _row(topic: str, system: frozenset[str], configs: Mapping[str, TopicConfig], received: int | None) -> TopicRow:
    permissions = sorted({permission_text(config.permission) for config in configs.values()})
    return TopicRow(
        topic,
        topic_kind(topic, system),
        sum(config.read_queue_count for config in configs.values()) if configs else None,
        sum(config.write_queue_count for config in configs.values()) if configs else None,
        " ".join(permissions),
        sorted(configs),
        received,
    )


def _said(permission: str) -> tuple[str, Mapping[str, Any]] | None:
    """A permission in the words of the forms; None: another one, or several of brokers that differ."""
    word = _PERMISSION_WORDS.get(permission)
    return None if word is None else (word, {})


def _is_of_kind(row: TopicRow, chosen: Mapping[str, str]) -> bool:
    return chosen["kind"] in {"all", row.kind}


def _config(topic: str, form: TopicForm | TopicSettingsForm) -> TopicConfig:
    """The settings in a form. Raises Invalid."""
    read_queues = form.write_queues if form.read_queues is None else form.read_queues
    for name, count in (("read queues", read_queues), ("write queues", form.write_queues)):
        if not 1 <= count <= _MOST_QUEUES:
            raise Invalid(
                "invalid number of {name}: {count}",
                "Choose a number from 1 to {most}.",
                name=name,
                count=count,
                most=_MOST_QUEUES,
            )
    if form.permission not in _PERMISSIONS:
        raise Invalid(
            "the permission {permission} is not one of {choices}",
            permission=repr(form.permission[:20]),
            choices=", ".join(_PERMISSIONS),
        )
    return TopicConfig(topic, read_queues, form.write_queues, _PERMISSIONS[form.permission])


def _changed(before: TopicConfig, form: TopicConfig) -> TopicConfig:
    """The settings at a broker with what the form changes."""
    return replace(
        before,
        read_queue_count=form.read_queue_count,
        write_queue_count=form.write_queue_count,
        permission=before.permission & ~(READ | WRITE) | form.permission,
    )


def _settings(config: TopicConfig) -> dict[str, Any]:
    """The settings as the forms have them."""
    return {
        "read_queues": config.read_queue_count,
        "write_queues": config.write_queue_count,
        "permission": permission_text(config.permission)[:2].replace("-", ""),
    }


def _properties(text: str) -> dict[str, str]:
    """The properties in lines of `name=value`. Raises Invalid."""
    properties: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise Invalid("expected name=value, got {line}", "Write one property per line.", line=repr(line[:80]))
            properties[name.strip()] = value
    return properties
