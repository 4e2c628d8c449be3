"""Topics: the list."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headrace.model.permission import permission_text
from headrace.model.topic_config import TopicConfig
from web.cluster.cluster import Cluster
from web.cluster.topic_kinds import DEAD_LETTER, NORMAL, RETRY, SYSTEM, topic_kind
from web.paths import path_of
from web.routes import Query, Route, View, Visit
from web.tables.table import Choice, Column, Kind, Table

KINDS: Final = Choice(
    "kind",
    "Kind",
    ((NORMAL, "Normal"), (RETRY, "Retry"), (DEAD_LETTER, "Dead letters"), (SYSTEM, "System"), ("all", "All")),
)


class TopicRow(msgspec.Struct, frozen=True):
    """One topic, over all brokers that have it."""

    topic: str
    kind: str
    read_queues: int | None
    """None: no broker that could be read has its settings."""
    write_queues: int | None
    permission: str
    brokers: list[str]
    messages: int | None = None
    last_write: int | None = None
    groups: list[str] | None = None
    problem: str = ""
    """Why the enriched fields are missing."""


def _columns() -> tuple[Column[TopicRow], ...]:
    return (
        Column("topic", "Topic", link=lambda row: path_of("topics", row.topic)),
        Column("kind", "Kind"),
        Column("write_queues", "Write queues", Kind.NUMBER),
        Column("read_queues", "Read queues", Kind.NUMBER),
        Column(
            "permission",
            "Permission",
            help="R: consumers may read. W: producers may write. X: a template for new topics.",
        ),
        Column("brokers", "Brokers", Kind.LIST),
        Column("messages", "Messages", Kind.NUMBER, is_enriched=True, help="Stored messages in all queues."),
        Column("last_write", "Last message", Kind.TIME, is_enriched=True),
        Column("groups", "Consumer groups", Kind.LIST, is_enriched=True),
        Column("problem", "Problem", is_enriched=True),
    )


class TopicPages:
    """The pages of topics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query("/topics", self.list_topics, "List the topics.", menu="Topic", shortcut="t"),
        ]

    async def list_topics(self, _visit: Visit) -> View:
        """All topics of the cluster."""
        names = await self._cluster.read(("topics",), lambda admin: admin.topics())
        system = await self._cluster.read(("system topics",), lambda admin: admin.system_topics(), fresh_s=60)
        configs, problems = await self._configs()
        system_names = frozenset(system)
        rows = [_row(name, system_names, configs.get(name, {})) for name in names]
        table = Table(
            "topics",
            TopicRow,
            rows,
            _columns(),
            search=("topic", "brokers"),
            choices=(KINDS,),
            choose=_is_of_kind,
            sort="topic",
            enrich=self._add_statistics,
            empty="The cluster has no topics.",
        )
        return View("Topics", "topics/list.html", tables=[table], problems=problems)

    async def _configs(self) -> tuple[dict[str, dict[str, TopicConfig]], list[str]]:
        """The settings of each topic by broker, and what could not be read. One request for each master."""
        masters = await self._cluster.read(("masters",), lambda admin: admin.masters())
        found: dict[str, dict[str, TopicConfig]] = {}
        problems: list[str] = []
        answers = await self._cluster.map(self._configs_of, masters.values())
        for (broker, address), answer in zip(masters.items(), answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{broker} ({address}): {answer}")
            else:
                for name, config in answer.items():
                    found.setdefault(name, {})[broker] = config
        return found, problems

    async def _configs_of(self, address: str) -> dict[str, TopicConfig]:
        return await self._cluster.read(("topic configs", address), lambda admin: admin.topic_configs(address))

    async def _add_statistics(self, rows: Sequence[TopicRow]) -> Sequence[TopicRow]:
        answers = await self._cluster.map(self._statistics_of, [row.topic for row in rows])
        return [
            msgspec.structs.replace(row, problem=str(answer))
            if isinstance(answer, Exception)
            else msgspec.structs.replace(row, messages=answer[0], last_write=answer[1], groups=answer[2])
            for row, answer in zip(rows, answers, strict=True)
        ]

    async def _statistics_of(self, topic: str) -> tuple[int, int, list[str]]:
        """Stored messages, the time of the last write, and the groups of a topic."""
        stats = await self._cluster.read(("topic stats", topic), lambda admin: admin.topic_stats(topic))
        groups = await self._cluster.read(("topic groups", topic), lambda admin: admin.topic_groups(topic))
        queues = stats.offset_table.values()
        return (
            sum(queue.max_offset - queue.min_offset for queue in queues),
            max((queue.last_update_timestamp for queue in queues), default=0),
            groups,
        )


def _row(name: str, system: frozenset[str], configs: Mapping[str, TopicConfig]) -> TopicRow:
    permissions = sorted({permission_text(config.permission) for config in configs.values()})
    return TopicRow(
        name,
        topic_kind(name, system),
        sum(config.read_queue_count for config in configs.values()) if configs else None,
        sum(config.write_queue_count for config in configs.values()) if configs else None,
        " ".join(permissions),
        sorted(configs),
    )


def _is_of_kind(row: TopicRow, chosen: Mapping[str, str]) -> bool:
    return chosen["kind"] in {"all", row.kind}
