"""TracePages: the way of a message as a timeline, found by its id or its key."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headrace import MessageExt
from headrace.errors import RemoteProtocolError
from headrace.model import names
from web.cluster.cluster import Cluster
from web.cluster.topic_reader import TopicReader
from web.errors import Invalid
from web.pages.messages.bodies import body_of
from web.pages.messages.message_reads import MOST_BY_KEY
from web.pages.messages.message_search import message_path
from web.pages.traces.trace_records import SENT, Decoder, Step, steps_with_key
from web.paths import path_of
from web.routes import Query, Route, View, Visit
from web.tables.table import Column, Kind, Table

_MOST_BODY: Final = 1 << 20  # limit: clients send at most 128,000 bytes
_MOST_BROKERS: Final = 64
_MOST_TEXT: Final = 255
_WIDTH: Final = 1000
_FOREVER: Final = (1 << 63) - 1


class TracedRow(msgspec.Struct, frozen=True):
    """A message of which there are traces, found by its key."""

    id: str
    topic: str
    sent_at: int | None
    groups: list[str]
    steps: int


class Bar(msgspec.Struct, frozen=True):
    """A step on the timeline, which is 1,000 units wide."""

    kind: str
    group: str
    state: str
    x: float
    width: float


_STEP_COLUMNS: Final[tuple[Column[Step], ...]] = (
    Column("kind", "Step", is_word=True),
    Column("group", "Group"),
    Column("begin", "Begin", Kind.TIME),
    Column("cost", "Duration", Kind.DURATION),
    Column("state", "State", Kind.WORD),
    Column("retries", "Retries", Kind.NUMBER, help="How often the message had been redelivered to the group before."),
    Column("client", "Client"),
    Column("topic", "Topic", link=lambda row: path_of("topics", row.topic) if row.topic else None),
    Column("broker", "Broker"),
    Column("tags", "Tag"),
    Column("keys", "Keys"),
)


class TracePages:
    """The page of traces."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics = TopicReader(cluster)

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query(
                "/traces",
                self.show,
                "Show the trace of a message.",
                menu="Message trace",
                shortcut="r",
                arguments={
                    "id": "The unique id of the message.",
                    "key": "A key of the message.",
                    "topic": "The topic of the traces.",
                },
            )
        ]

    async def show(self, visit: Visit) -> View:
        """The form, and what is known of a message if one is searched for."""
        given = {name: visit.arguments.get(name, "").strip() for name in ("id", "key", "topic")}
        message_id, key, topic = given["id"], given["key"], given["topic"] or names.TRACE_TOPIC
        if any(len(text) > _MOST_TEXT for text in given.values()):
            raise Invalid("the id, key and topic must each have at most {most} characters", most=_MOST_TEXT)
        data: dict[str, Any] = {
            "id": message_id,
            "key": key,
            "topic": topic,
            "is_searched": False,
            "has_topic": True,
            "unreadable": 0,
            "is_cut": False,
            "bars": [],
            "message": None,
        }
        if not message_id and not key:
            return View("Message trace", "traces/show.html", data)
        data["is_searched"] = True
        data["has_topic"] = topic in await self._topics.names()
        steps: Sequence[Step] = ()
        if data["has_topic"]:
            steps, data["unreadable"], data["is_cut"] = await self._steps(topic, message_id or key)
        if message_id:
            steps = [step for step in steps if step.message_id == message_id]
            data["bars"] = bars_of(steps)
            own = next((step.topic for step in steps if step.kind == SENT), "")
            data["message"] = message_path(message_id, own) if steps else None
            table: Table[Any] = Table("steps", Step, steps, _STEP_COLUMNS, empty="There are no traces of the message.")
        else:
            columns: tuple[Column[TracedRow], ...] = (
                Column(
                    "id", "Message id", Kind.ID, link=lambda row: path_of("traces", id=row.id, topic=given["topic"])
                ),
                Column("topic", "Topic", says=_without_producer),
                Column("sent_at", "Sent", Kind.TIME, says=_without_producer),
                Column("groups", "Consumer groups", Kind.LIST),
                Column("steps", "Steps", Kind.NUMBER),
            )
            rows = _messages(steps_with_key(steps, key))
            table = Table("messages", TracedRow, rows, columns, empty="There are no traces of messages with the key.")
        return View("Message trace", "traces/show.html", data, [table], message_id or key)

    async def _steps(self, topic: str, key: str) -> tuple[list[Step], int, bool]:
        """The steps, how many records could not be read, and whether brokers may have left out earlier ones."""
        found = await self._cluster.ask(
            lambda admin: admin.query_messages(topic, key, MOST_BY_KEY * _MOST_BROKERS, 0, _FOREVER, decompress=False)
        )
        decoder = Decoder()
        unreadable = 0
        for message in found:
            text = _text(message)
            if text is None:
                unreadable += 1
            else:
                decoder.add(text, message.born_host[0])
        return decoder.steps(), unreadable + decoder.unreadable, len(found) >= MOST_BY_KEY // 2


def _without_producer(row: TracedRow) -> tuple[str, dict[str, str]] | None:
    """In place of what only the trace of the producer has."""
    return ("no producer trace", {}) if row.sent_at is None else None


def bars_of(steps: Sequence[Step]) -> list[Bar]:
    """The steps on a timeline from the first beginning to the last end; those without any time are left out."""
    times = [(step, step.begin or step.end, step.end or step.begin) for step in steps]
    known = [(step, begin, end) for step, begin, end in times if begin is not None and end is not None]
    if not known:
        return []
    first, last = min(begin for _, begin, _ in known), max(end for _, _, end in known)
    scale = _WIDTH / max(1, last - first)
    return [
        Bar(
            step.kind,
            step.group,
            step.state,
            round(min(_WIDTH - 4, (begin - first) * scale), 1),
            round(max(4, (end - begin) * scale), 1),
        )
        for step, begin, end in known
    ]


def _messages(steps: Sequence[Step]) -> list[TracedRow]:
    by_id: dict[str, list[Step]] = {}
    for step in steps:
        by_id.setdefault(step.message_id, []).append(step)
    rows = []
    for message_id, own in by_id.items():
        sent = next((step for step in own if step.kind == SENT), None)
        groups = sorted({step.group for step in own if step.kind != SENT})
        rows.append(TracedRow(message_id, sent.topic if sent else "", sent.begin if sent else None, groups, len(own)))
    return rows


def _text(message: MessageExt) -> str | None:
    try:
        body, is_whole = body_of(message, _MOST_BODY)
        return body.decode() if is_whole else None
    except (RemoteProtocolError, UnicodeDecodeError):
        return None
