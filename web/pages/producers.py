"""Producers: the connected producers of each group, and client ids that several programs use."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headrace.model.names import CLIENT_INNER_PRODUCER_GROUP
from headrace.protocol.bodies import ProducerTableInfo
from headrace.protocol.version import version_text
from web.cluster.cluster import PRODUCER_GROUP, Cluster
from web.cluster.topic_reader import TopicReader
from web.errors import QueryFailed
from web.routes import Query, Route, View, Visit
from web.tables.table import Choice, Column, Kind, Table

_KINDS: Final = Choice("kind", "Kind", (("normal", "Normal"), ("system", "System"), ("all", "All")))
_OWN: Final = frozenset({CLIENT_INNER_PRODUCER_GROUP, PRODUCER_GROUP})
_TRACERS: Final = "_INNER_TRACE_PRODUCER"


class ProducerRow(msgspec.Struct, frozen=True):
    """One client in one producer group."""

    group: str
    client: str
    addresses: list[str]
    """One for each connection; a client has one to each broker."""
    language: str
    version: str
    brokers: list[str]
    last_seen: int
    """When it sent its last heartbeat."""
    kind: str


class DuplicateRow(msgspec.Struct, frozen=True):
    """A client id with several connections to one broker."""

    client: str
    broker: str
    addresses: list[str]
    groups: list[str]


_COLUMNS: Final[tuple[Column[ProducerRow], ...]] = (
    Column("group", "Producer group"),
    Column("client", "Client id"),
    Column("addresses", "Addresses", Kind.LIST),
    Column("language", "Language"),
    Column("version", "Version"),
    Column("brokers", "Brokers", Kind.LIST),
    Column("last_seen", "Last heartbeat", Kind.TIME),
    Column("kind", "Kind", is_word=True),
)
_DUPLICATE_COLUMNS: Final[tuple[Column[DuplicateRow], ...]] = (
    Column("client", "Client id"),
    Column("broker", "Broker"),
    Column("addresses", "Addresses", Kind.LIST),
    Column("groups", "Producer groups", Kind.LIST),
)


class ProducerPages:
    """The page of producers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics = TopicReader(cluster)

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query(
                "/producers",
                self.show,
                "List the connected producers.",
                menu="Producers",
                shortcut="p",
                arguments=_KINDS.argument,
            )
        ]

    async def show(self, _visit: Visit) -> View:
        """All connected producers. One request for each master."""
        masters = await self._topics.masters()

        async def at(address: str) -> ProducerTableInfo:
            return await self._cluster.read(("producers", address), lambda admin: admin.producers(address))

        answers = await self._cluster.map(at, masters.values())
        found: dict[str, ProducerTableInfo] = {}
        problems: list[str] = []
        for (broker, address), answer in zip(masters.items(), answers, strict=True):
            if isinstance(answer, Exception):
                problems.append(f"{broker} ({address}): {answer}")
            else:
                found[broker] = answer
        if problems and not found:
            raise QueryFailed(
                "; ".join(problems), "Check that the brokers are running and reachable, then reload the page."
            )
        producers = Table(
            "producers",
            ProducerRow,
            rows_of(found),
            _COLUMNS,
            search=("group", "client", "addresses", "brokers"),
            choices=(_KINDS,),
            choose=_is_of_kind,
            sort="group",
            empty="No producer is connected.",
        )
        duplicates = Table(
            "duplicates", DuplicateRow, duplicates_of(found), _DUPLICATE_COLUMNS, empty="Every client id is unique."
        )
        return View("Producers", "producers.html", {}, [producers, duplicates], problems=problems)


def rows_of(found: Mapping[str, ProducerTableInfo]) -> Sequence[ProducerRow]:
    """A row for each client of each group, from the answers of brokers by name."""
    rows: dict[tuple[str, str], ProducerRow] = {}
    for broker, table in found.items():
        for group, producers in table.data.items():
            for one in producers:
                client, address = one.client_id or "", (one.remote_ip or "").removeprefix("/")
                known = rows.get((group, client))
                rows[group, client] = ProducerRow(
                    group,
                    client,
                    sorted({*(known.addresses if known else ()), address}),
                    one.language.name,
                    version_text(one.version),
                    sorted({*(known.brokers if known else ()), broker}),
                    max(known.last_seen if known else 0, one.last_update_timestamp),
                    "system" if group in _OWN or group.startswith(_TRACERS) else "normal",
                )
    return list(rows.values())


def duplicates_of(found: Mapping[str, ProducerTableInfo]) -> Sequence[DuplicateRow]:
    """The client ids that several connections of a broker use: brokers and tools take these clients for one."""
    rows = []
    for broker, table in sorted(found.items()):
        uses: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
        for group, producers in table.data.items():
            for one in producers:
                address = (one.remote_ip or "").removeprefix("/")
                uses[one.client_id or ""].setdefault(address, set()).add(group)
        for client, addresses in sorted(uses.items()):
            if len(addresses) > 1:
                rows.append(DuplicateRow(client, broker, sorted(addresses), sorted(set().union(*addresses.values()))))
    return rows


def _is_of_kind(row: ProducerRow, chosen: Mapping[str, str]) -> bool:
    return chosen["kind"] in {"all", row.kind}
