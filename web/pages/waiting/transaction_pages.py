"""TransactionPages: unresolved half messages, those that brokers have discarded, and their next check."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec

from headrace import BrokerError, HeadraceError, MessageExt
from headrace.errors import BrokerNotFound, NoNameServer
from headrace.model import properties as property_names
from headrace.model.names import TRANSACTION_CHECK_MAX_TIME_TOPIC
from web.cluster.cluster import Cluster
from web.cluster.topic_reader import TopicReader
from web.errors import Invalid, QueryFailed
from web.pages.dead_letters.dead_letter_pages import PERIOD_ARGUMENTS
from web.pages.dead_letters.resend_book import Letter, ResendBook
from web.pages.groups.resets import parse_time
from web.pages.messages.message_reads import MessageReads
from web.pages.messages.message_row import MessageRow
from web.pages.messages.message_search import message_path, parse_offsets
from web.pages.messages.time_scan import PAGE
from web.pages.waiting.half_reads import Half, HalfReads
from web.pages.waiting.waiting_message import real_topic, whole
from web.paths import path_of
from web.routes import Access, Change, Outcome, Query, Route, View, Visit
from web.tables.table import Column, Kind, Table

MENU: Final = "Transactions"
_FOREVER: Final = (1 << 63) - 1
_NOT_CHECKED: Final = (BrokerError, BrokerNotFound, NoNameServer)
"""The broker has certainly not stored the message again."""


class HalfRow(msgspec.Struct, frozen=True):
    """A message that its producer has neither committed nor rolled back."""

    id: str
    topic: str
    group: str
    connected: bool | None
    """Whether a member of the producer group is connected, which the broker can ask."""
    checks: int
    born_at: int
    discarded_at: int
    tag: str
    keys: list[str]
    size: int
    body: str
    broker: str
    offset_id: str


class DiscardedRow(msgspec.Struct, frozen=True):
    """A message that the broker has discarded: nobody consumes it."""

    offset_id: str
    id: str
    discarded_at: int
    topic: str
    group: str
    checks: int
    born_at: int
    tag: str
    keys: list[str]
    size: int
    body: str
    checked_at: int | None
    """When an operator made the broker check it again; None: not yet."""


class CheckAgain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Discarded messages that a broker is to check again."""

    message: Annotated[list[str], msgspec.Meta(max_length=PAGE)] = []
    """Offset message ids."""
    again: bool = False
    """Includes those that were already checked again."""


_HALF_COLUMNS: Final[tuple[Column[HalfRow], ...]] = (
    Column("id", "Message id", Kind.ID, link=lambda row: message_path(row.offset_id, "")),
    Column("topic", "Topic", link=lambda row: path_of("topics", row.topic)),
    Column("group", "Producer group"),
    Column(
        "connected",
        "Producer connected",
        Kind.YES_NO,
        help="Brokers can only check with a producer group that has a connected member.",
    ),
    Column("checks", "Checks", Kind.NUMBER, help="How often the broker has checked with the producer group."),
    Column("born_at", "Created", Kind.TIME),
    Column(
        "discarded_at", "Discarded at (estimate)", Kind.TIME, help="When the broker discards it if it stays unresolved."
    ),
    Column("tag", "Tag"),
    Column("keys", "Keys", Kind.LIST),
    Column("size", "Size", Kind.BYTES),
    Column("body", "Body"),
    Column("broker", "Broker"),
)
_DISCARDED_COLUMNS: Final[tuple[Column[DiscardedRow], ...]] = (
    Column("offset_id", "Choose", Kind.CHOICE),
    Column("id", "Message id", Kind.ID, link=lambda row: message_path(row.offset_id, "")),
    Column("discarded_at", "Discarded at", Kind.TIME),
    Column("topic", "Topic", link=lambda row: path_of("topics", row.topic)),
    Column("group", "Producer group"),
    Column("checks", "Checks", Kind.NUMBER, help="How often the broker has checked with the producer group."),
    Column("born_at", "Created", Kind.TIME),
    Column("tag", "Tag"),
    Column("keys", "Keys", Kind.LIST),
    Column("size", "Size", Kind.BYTES),
    Column("body", "Body"),
    Column("checked_at", "Checked again", Kind.TIME, is_shown_if_any=True),
)


class TransactionPages:
    """The page of transactions."""

    def __init__(
        self, cluster: Cluster, book: ResendBook, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        """`book` has the messages that were checked again: a second check would make a second message."""
        self._cluster = cluster
        self._topics = TopicReader(cluster)
        self._halves = HalfReads(cluster)
        self._messages = MessageReads(cluster)
        self._book = book
        self._now_ms = now_ms

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query(
                "/transactions",
                self.show,
                "Show unresolved transactions.",
                menu=MENU,
                shortcut="x",
                arguments=PERIOD_ARGUMENTS,
            ),
            Change(
                "/transactions/check-again",
                CheckAgain,
                self.check_again,
                "transaction.check-again",
                "Check discarded half messages again.",
            ),
        ]

    async def show(self, visit: Visit) -> View:
        """The half messages that wait for a decision, and a page of those that brokers have discarded."""
        found = await self._halves.halves()
        begin, end = visit.arguments.get("begin", "").strip(), visit.arguments.get("end", "").strip()
        rows, next_offsets = await self._discarded(begin, end, visit.arguments.get("at", ""))
        data: dict[str, Any] = {"begin": begin, "end": end, "next": None, "discarded": len(rows)}
        if next_offsets is not None:
            at = ".".join(map(str, next_offsets))
            data["next"] = {key: value for key, value in {"begin": begin, "end": end, "at": at}.items() if value}
        halves = Table(
            "halves",
            HalfRow,
            [_half_row(one) for one in found.halves],
            _HALF_COLUMNS,
            search=("id", "topic", "group", "tag", "keys", "body"),
            sort="born_at",
            empty="No transaction waits for a decision.",
        )
        columns = _DISCARDED_COLUMNS
        if visit.access < Access.OPERATOR:
            columns = tuple(column for column in columns if column.kind is not Kind.CHOICE)
        discarded = Table(
            "discarded", DiscardedRow, rows, columns, empty="No half message was discarded in this period."
        )
        return View("Transactions", "waiting/transactions.html", data, [halves, discarded], problems=found.problems)

    async def check_again(self, visit: Visit, form: CheckAgain) -> Outcome:
        """Stores discarded messages again as half messages that were never checked, each once. Raises Invalid, QueryFailed, HeadraceError."""
        if not form.message:
            raise Invalid("no message is selected", "Select some in the table.")
        messages = [
            await self._messages.by_id(one, TRANSACTION_CHECK_MAX_TIME_TOPIC) for one in dict.fromkeys(form.message)
        ]
        for message in messages:
            if message.topic != TRANSACTION_CHECK_MAX_TIME_TOPIC:
                raise Invalid(
                    "the message {offset_message_id} is in the topic {topic}, not in {expected}",
                    "Reload the page.",
                    offset_message_id=message.offset_message_id,
                    topic=message.topic,
                    expected=TRANSACTION_CHECK_MAX_TIME_TOPIC,
                )
        checked: list[str] = []
        for message in messages:
            try:
                if await self._check(message, visit.user, again=form.again):
                    checked.append(message.message_id)
            except HeadraceError as error:
                raise QueryFailed(
                    "{message_id}: {error}; {count} of the messages before it were queued for another check",
                    "Fix the cause and try again: messages already queued for another check are skipped.",
                    after={"checked": checked},
                    message_id=message.message_id,
                    error=error,
                    count=len(checked),
                ) from error
        skipped = len(messages) - len(checked)
        return Outcome(
            "Messages checked again: {checked}. Skipped because they had been checked again before: {skipped}.",
            {"checked": len(checked), "skipped": skipped},
            "/transactions",
            after={"checked": checked, "skipped": skipped},
        )

    # ----

    async def _discarded(self, begin: str, end: str, at: str) -> tuple[list[DiscardedRow], Sequence[int] | None]:
        begin_ms, end_ms = parse_time(begin) if begin else 0, parse_time(end, is_end=True) if end else _FOREVER
        if begin_ms > end_ms:
            raise Invalid("the end time is before the start time", "Swap the two times.")
        if TRANSACTION_CHECK_MAX_TIME_TOPIC not in await self._topics.names():
            return [], None  # brokers create the topic for the first such message
        page = await self._messages.by_time(TRANSACTION_CHECK_MAX_TIME_TOPIC, begin_ms, end_ms, parse_offsets(at))
        letters = [_letter(one.offset_id, one.id) for one in page.rows]
        known = await asyncio.to_thread(self._book.find, letters)
        rows = []
        for letter, one in zip(letters, page.rows, strict=True):
            entry = known.get(letter)
            rows.append(_discarded_row(one, None if entry is None else entry.at_ms))
        return rows, page.next_offsets

    async def _check(self, message: MessageExt, user: str, *, again: bool) -> bool:
        """Whether the message is checked again; False if it was before. Raises HeadraceError."""
        letter = _letter(message.offset_message_id, message.message_id)
        if not await asyncio.to_thread(self._book.begin, letter, user, self._now_ms(), again=again):
            return False
        try:
            await self._cluster.admin.resume_half_message(message.offset_message_id)
        except _NOT_CHECKED:
            if not again:
                await asyncio.to_thread(self._book.forget, letter)
            raise
        await asyncio.to_thread(self._book.finish, letter, message.message_id)
        return True


def _letter(offset_id: str, message_id: str) -> Letter:
    return Letter(TRANSACTION_CHECK_MAX_TIME_TOPIC, offset_id, message_id)


def _half_row(half: Half) -> HalfRow:
    one = half.message
    return HalfRow(
        one.id,
        real_topic(one),
        half.group,
        half.is_connected,
        half.checks,
        one.born_at,
        half.discarded_at,
        one.tag,
        one.keys,
        one.size,
        one.body,
        half.broker,
        one.offset_id,
    )


def _discarded_row(one: MessageRow, checked_at: int | None) -> DiscardedRow:
    return DiscardedRow(
        one.offset_id,
        one.id,
        one.stored_at,
        real_topic(one),
        one.properties.get(property_names.PRODUCER_GROUP, ""),
        whole(one.properties.get(property_names.TRANSACTION_CHECK_TIMES)) or 0,
        one.born_at,
        one.tag,
        one.keys,
        one.size,
        one.body,
        checked_at,
    )
