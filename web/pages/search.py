"""Search of everything by one text: topics, consumer groups, clients, and messages by id or key.

What it costs brokers does not grow with the number of groups and clients: clients come from the latest sample. A text that looks like a message
id is looked up as one. A text that nothing else has is looked up as a message key, in at most `MOST_SEARCHED` topics; dead letters and retries come
last.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headrace import MessageExt, RouteNotFound
from headrace.errors import HeadraceError
from web.cluster.cluster import Cluster
from web.cluster.topic_reader import TopicReader
from web.errors import Invalid, NotFound, QueryFailed
from web.pages.groups.group_page import member_path
from web.pages.groups.group_reads import GroupReads
from web.pages.messages.message_reads import MOST_BY_KEY, MessageReads
from web.pages.messages.message_row import row_of
from web.pages.messages.message_search import message_path, words_of_copy
from web.paths import path_of
from web.routes import Problem, Query, Route, View, Visit
from web.sampling.sample import Member
from web.sampling.sampler import PAGE_TIMEOUT_S, Sampler
from web.tables.table import Choice, Column, Kind, Table

_MOST_TEXT: Final = 255
_LATE: Final = Problem("messages: not all topics could be searched in time; enter the topic on the Message page", {})
_KEYS_TIMEOUT_S: Final = 5.0
_MESSAGE_ID: Final = re.compile(r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})")
"""An offset message id or a unique id, of a host with an address of 4 or 16 bytes."""

TOPIC, GROUP, CLIENT, PRODUCER, MESSAGE = "topic", "consumer group", "client", "producer", "message"
_KINDS: Final = Choice(
    "kind", "Kind", (("all", "All"), *((kind, kind) for kind in (TOPIC, GROUP, CLIENT, PRODUCER, MESSAGE)))
)


class Hit(msgspec.Struct, frozen=True):
    """Something that was found."""

    kind: str
    name: str
    detail: str
    """A client's group, a message's topic."""
    path: str | None
    """Its page."""
    stored_at: int | None = None
    """When the message was stored."""
    address: str = ""
    """A client's."""
    keys: list[str] = []
    """A message's."""


_COLUMNS: Final[tuple[Column[Hit], ...]] = (
    Column("name", "Name", link=lambda row: row.path),
    Column("kind", "Kind", is_word=True),
    Column(
        "detail",
        "Belongs to",
        is_shown_if_any=True,
        says=lambda row: words_of_copy(row.detail) if row.kind == MESSAGE else None,
    ),
    Column("keys", "Keys", Kind.LIST, is_shown_if_any=True),
    Column("address", "Address", is_shown_if_any=True),
    Column("stored_at", "Stored", Kind.TIME, is_shown_if_any=True),
)


class SearchPages:
    """The page of the search."""

    def __init__(self, cluster: Cluster, sampler: Sampler) -> None:
        self._cluster = cluster
        self._topics = TopicReader(cluster)
        self._groups = GroupReads(cluster)
        self._messages = MessageReads(cluster, sampler)
        self._sampler = sampler

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query(
                "/search",
                self.show,
                "Find topics, groups, clients and messages.",
                arguments={
                    "q": "What to look for.",
                    "keys": "`yes`: also look for messages with this key if something else was found.",
                    **_KINDS.argument,
                },
            )
        ]

    async def show(self, visit: Visit) -> View:
        """What contains the text `q`. `keys=yes` looks for it as a message key even if something else has it."""
        text = visit.arguments.get("q", "").strip()
        if len(text) > _MOST_TEXT:
            raise Invalid(
                "the search text has {count} characters",
                "Shorten it to at most {most} characters.",
                count=len(text),
                most=_MOST_TEXT,
            )
        data: dict[str, Any] = {"q": text, "are_keys_searched": False, "key_topics": 0, "all_topics": 0}
        if not text:
            return View("Search", "search.html", data)
        problems: list[str | Problem] = []
        names, (settings, unread), members, message = await asyncio.gather(
            self._topics.names(), self._groups.settings(), self._members(problems), self._by_id(text, problems)
        )
        problems += unread
        hits = [*_named(TOPIC, text, names), *_named(GROUP, text, settings), *_clients(text, members), *message]
        if not hits or visit.arguments.get("keys") == "yes":
            searched, count = await self._messages.to_search()
            data |= {"are_keys_searched": True, "key_topics": len(searched), "all_topics": count}
            hits += await self._by_key(text, searched, problems)
        table = Table(
            "results",
            Hit,
            hits,
            _COLUMNS,
            search=("name", "detail", "keys", "address"),
            choices=(_KINDS,),
            choose=lambda row, chosen: chosen["kind"] in ("all", row.kind),
            empty="No results were found.",
        )
        return View("Search", "search.html", data, [table], text, problems)

    async def _members(self, problems: list[str | Problem]) -> list[Member]:
        sample = await self._sampler.for_page()
        if sample is None:
            values = {"seconds": f"{PAGE_TIMEOUT_S:g}"}
            problems.append(Problem("clients: the brokers did not answer within {seconds} s", values))
            return []
        problems += [
            Problem("clients of {broker}: {error}", {"broker": broker.key, "error": broker.problem})
            for broker in sample.brokers
            if broker.problem
        ]
        return sorted({member for broker in sample.brokers for member in broker.members})

    async def _by_id(self, text: str, problems: list[str | Problem]) -> list[Hit]:
        if not _MESSAGE_ID.fullmatch(text):
            return []
        try:
            async with asyncio.timeout(_KEYS_TIMEOUT_S):
                return [_message(await self._messages.by_id(text))]
        except NotFound as error:
            if "searched" in error.values:  # not in all topics
                problems.append(Problem(error.cause_key, error.values))
            return []
        except (QueryFailed, HeadraceError) as error:
            problems.append(Problem("messages: {error}", {"error": error}))
            return []
        except TimeoutError:
            problems.append(_LATE)
            return []

    async def _by_key(self, key: str, searched: Sequence[str], problems: list[str | Problem]) -> list[Hit]:
        """Messages of these topics with the key, the newest first."""

        async def of(topic: str) -> list[MessageExt]:
            return await self._cluster.ask(
                lambda admin: admin.query_messages(topic, key, MOST_BY_KEY, decompress=False)
            )

        try:
            async with asyncio.timeout(_KEYS_TIMEOUT_S):
                answers = await self._cluster.map(of, searched)
        except TimeoutError:
            problems.append(_LATE)
            return []
        failed = [one for one in answers if isinstance(one, Exception) and not isinstance(one, RouteNotFound)]
        if failed:
            problems.append(
                Problem(
                    "messages: {failed} of {all} topics could not be searched: {error}",
                    {"failed": len(failed), "all": len(searched), "error": failed[0]},
                )
            )
        found = [message for answer in answers if not isinstance(answer, Exception) for message in answer]
        return [_message(one) for one in sorted(found, key=lambda one: -one.store_timestamp)]


def _named(kind: str, text: str, names: Iterable[str]) -> list[Hit]:
    """Those whose name contains the text: the same first, then those that begin with it."""
    wanted = text.lower()
    found = sorted(
        (name.lower() != wanted, not name.lower().startswith(wanted), name) for name in names if wanted in name.lower()
    )
    folder = "topics" if kind == TOPIC else "groups"
    return [Hit(kind, name, "", path_of(folder, name)) for *_, name in found]


def _clients(text: str, members: Iterable[Member]) -> list[Hit]:
    wanted = text.lower()
    return [
        Hit(
            PRODUCER if one.is_producer else CLIENT,
            one.client_id,
            one.group,
            None if one.is_producer else member_path(one.group, one.client_id),
            address=one.address,
        )
        for one in members
        if wanted in one.client_id.lower() or wanted in one.address
    ]


def _message(message: MessageExt) -> Hit:
    row = row_of(message)
    return Hit(MESSAGE, row.id, row.topic, message_path(row.offset_id, row.topic), row.stored_at, keys=row.keys)
