"""DeadLetterPages: the groups with dead letters, those of one group, and how they are sent again."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from headrace.errors import HeadraceError
from headrace.model import properties as property_names
from headrace.model.names import DLQ_PREFIX, dlq_topic
from web.cluster.cluster import Cluster
from web.cluster.topic_reader import TopicReader
from web.errors import ConsoleError, Invalid, NotFound
from web.pages.dead_letters.handled_book import Mark
from web.pages.dead_letters.handled_letters import FindMark, HandledLetters
from web.pages.dead_letters.handling_changes import HandlingChanges
from web.pages.dead_letters.letter_export import LetterExport
from web.pages.dead_letters.letter_queues import LetterQueues, LetterRange, find_letter, parse_ranges
from web.pages.dead_letters.resend_book import Letter, ResendBook
from web.pages.dead_letters.resends import FAILURES_OF_ONE, Resends, Target
from web.pages.groups.group_reads import GroupReads
from web.pages.groups.resets import parse_time
from web.pages.messages.message_reads import MessageReads
from web.pages.messages.message_row import MessageRow
from web.pages.messages.message_search import message_path, parse_offsets
from web.pages.messages.time_scan import PAGE
from web.paths import path_of
from web.routes import Access, Change, Outcome, Query, Raw, Route, View, Visit
from web.sampling.sample import figures_by_group
from web.sampling.sampler import Sampler
from web.tables.export import EXPORT_TYPES
from web.tables.table import Choice, Column, Kind, Table

MENU: Final = "Dead letters"
_FOREVER: Final = (1 << 63) - 1
_MOST_CHOSEN: Final = PAGE
PERIOD_ARGUMENTS: Final = {
    "begin": "The earliest time of storage: ISO 8601 in UTC unless it has a zone, or milliseconds since 1970.",
    "end": "The latest time of storage; a date is the end of its day.",
    "at": "Where the next page starts: `next` of the page before.",
}


class GroupRow(msgspec.Struct, frozen=True):
    """A group with a dead-letter topic."""

    group: str
    messages: int | None = None
    """Stored ones, those of the last sample until the row is shown; None: unknown."""
    last: int | None = None
    """When the last one was stored."""
    unhandled: int | None = None
    """Those of `messages` that are not marked as handled."""
    problem: str = ""


class LetterRow(msgspec.Struct, frozen=True):
    """One dead letter."""

    offset_id: str
    id: str
    stored_at: int
    original_topic: str
    original_id: str
    retries: int
    """How often members failed to consume it: one for each delivery, the first one included."""
    tag: str
    keys: list[str]
    size: int
    body: str
    """The beginning."""
    resent_at: int | None
    """When it was sent again; None: not yet."""
    copy_id: str | None
    """The copy's message id; None: it was not sent again; empty: the console does not know whether it was stored."""
    again_at: int | None
    """When the copy became a dead letter itself; None: it did not, or that dead letter is not on this page."""
    handled_at: int | None = None
    """When it was marked as handled; None: it is not."""
    handled_by: str = ""
    note: str = ""
    """Of the user who marked it."""


class ResendForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chosen dead letters, which are to be sent again."""

    message: Annotated[list[str], msgspec.Meta(max_length=_MOST_CHOSEN)] = []
    """Offset message ids."""
    to: Target = "group"
    again: bool = False
    """Includes those that were already resent."""


class ResendAllForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All dead letters in ranges of offsets."""

    range: Annotated[list[str], msgspec.Meta(max_length=500)]
    to: Target = "group"
    rate: Annotated[int, msgspec.Meta(ge=1, le=500)] = 50


class CancelForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing is needed."""


_STATE: Final = Choice("state", "State", (("unhandled", "unhandled"), ("handled", "handled"), ("all", "all")))
_GROUP_COLUMNS: Final[tuple[Column[GroupRow], ...]] = (
    Column("group", "Group", link=lambda row: path_of("dead-letters", row.group)),
    Column("unhandled", "Unhandled", Kind.NUMBER, help="Dead letters that are not marked as handled."),
    Column("messages", "Dead letters", Kind.NUMBER),
    Column("last", "Last dead letter", Kind.TIME, is_enriched=True),
    Column("problem", "Problem", is_enriched=True, is_shown_if_any=True),
)
_LETTER_COLUMNS: Final[tuple[Column[LetterRow], ...]] = (
    Column("offset_id", "Choose", Kind.CHOICE),
    Column("id", "Message id", Kind.ID, link=lambda row: message_path(row.offset_id, "")),
    Column(
        "original_id",
        "Original offset message id",
        Kind.ID,
        link=lambda row: message_path(row.original_id, row.original_topic),
    ),
    Column("stored_at", "Dead-lettered", Kind.TIME, help="When the message became a dead letter."),
    Column(
        "resent_at",
        "Resent",
        Kind.TIME,
        is_shown_if_any=True,
        below=(
            Column(
                "copy_id",
                "Copy",
                Kind.ID,
                link=lambda row: message_path(row.copy_id, "") if row.copy_id else None,
                says=lambda row: ("unknown", {}) if row.copy_id == "" else None,
            ),
            Column(
                "again_at",
                "Dead-lettered again",
                Kind.TIME,
                help="When the resent copy became a dead letter itself, if that dead letter is in this table.",
            ),
        ),
    ),
    Column(
        "handled_at",
        "Handled",
        Kind.TIME,
        help="When the dead letter was marked as handled.",
        is_shown_if_any=True,
        below=(Column("handled_by", "Handled by"), Column("note", "Note")),
    ),
    Column("keys", "Keys", Kind.LIST),
    Column("body", "Body"),
    Column(
        "retries",
        "Failed deliveries",
        Kind.NUMBER,
        help="How often members failed to consume the message, the first delivery included. A client may give up earlier than the group's setting allows.",
    ),
    Column("original_topic", "Original topic", link=lambda row: path_of("topics", row.original_topic)),
    Column("tag", "Tag"),
    Column("size", "Size", Kind.BYTES),
)


class DeadLetterPages:
    """The pages of dead letters."""

    def __init__(
        self, cluster: Cluster, sampler: Sampler, book: ResendBook, handled: HandledLetters, resends: Resends
    ) -> None:
        self._cluster = cluster
        self._sampler = sampler
        self._topics = TopicReader(cluster)
        self._messages = MessageReads(cluster)
        self._queues = LetterQueues(cluster)
        self._groups = GroupReads(cluster)
        self._book = book
        self._handled = handled
        self._resends = resends

    def routes(self) -> list[Route]:
        """What it serves."""
        group = "/dead-letters/<group:str>"
        return [
            Query("/dead-letters", self.list_groups, "List the groups with dead letters.", menu=MENU, shortcut="d"),
            Query(
                group,
                self.show,
                "Show the dead letters of a group.",
                section=MENU,
                arguments={**PERIOD_ARGUMENTS, **_STATE.argument},
            ),
            Raw(
                f"{group}/export",
                LetterExport(self._queues, self._book, self._handled).answer,
                Access.VIEWER,
                summary="Download the dead letters of a group with their bodies.",
                arguments={
                    "format": "`jsonl`, the default, or `csv`.",
                    **{name: PERIOD_ARGUMENTS[name] for name in ("begin", "end")},
                },
                answers=tuple(EXPORT_TYPES.values()),
            ),
            Change(f"{group}/resend", ResendForm, self.resend, "dead-letter.resend", "Resend selected dead letters."),
            Change(
                f"{group}/resend-all",
                ResendAllForm,
                self.resend_all,
                "dead-letter.resend-all",
                "Start resending all dead letters of a period.",
            ),
            *HandlingChanges(self._messages, self._handled).routes(),
            Query(f"{group}/progress", self.progress, "Show the progress of a resend.", section=MENU),
            Change(f"{group}/cancel", CancelForm, self.cancel, "dead-letter.cancel", "Cancel a resend."),
        ]

    # ---- queries

    async def list_groups(self, _visit: Visit) -> View:
        """All groups that have a dead-letter topic."""
        topics, sample = await asyncio.gather(self._topics.names(), self._sampler.for_page())
        brokers = () if sample is None else sample.brokers
        figures, handled = figures_by_group(brokers), await self._handled.count_in(brokers)
        groups = [topic.removeprefix(DLQ_PREFIX) for topic in topics if topic.startswith(DLQ_PREFIX)]
        rows = [
            GroupRow(
                group,
                figures[group].dead_letters,
                unhandled=figures[group].dead_letters - handled.get(group, 0),
            )
            if group in figures
            else GroupRow(group)
            for group in groups
        ]
        table = Table(
            "groups",
            GroupRow,
            rows,
            _GROUP_COLUMNS,
            search=("group",),
            sort="group",
            enrich=self._add_counts,
            empty="No group has dead letters.",
        )
        data = {"sampled_at": None if sample is None else int(sample.time_s * 1000)}
        return View("Dead letters", "dead_letters/list.html", data, [table])

    async def show(self, visit: Visit) -> View:
        """A page of a group's dead letters, the oldest first."""
        group = visit.path["group"]
        begin, end = visit.arguments.get("begin", "").strip(), visit.arguments.get("end", "").strip()
        begin_ms, end_ms = parse_time(begin) if begin else 0, parse_time(end, is_end=True) if end else None
        if end_ms is not None and begin_ms > end_ms:
            raise Invalid("the end time is before the start time", "Swap the two times.")
        data: dict[str, Any] = {
            "group": group,
            "topic": dlq_topic(group),
            "begin": begin,
            "end": end,
            "count": 0,
            "handled": 0,
            "shown": 0,
            "resent": None,
            "is_continued": bool(visit.arguments.get("at")),
            "ranges": [],
            "without_members": [],
            "next": None,
            "run": self._resends.last(group),
        }
        rows: Sequence[LetterRow] = ()
        if await self._queues.exists(group):
            data["without_members"] = await self._groups.without_members(group)
            ranges = await self._queues.ranges(group, begin_ms, end_ms)
            find, state = await self._handled.finder(group), visit.arguments.get("state", "unhandled")
            scanned: list[MessageRow] = []

            def is_wanted(row: MessageRow) -> bool:
                scanned.append(row)
                return state == "all" or (state == "handled") == (_mark_of(row, find) is not None)

            page = await self._messages.by_time_where(
                dlq_topic(group),
                begin_ms,
                _FOREVER if end_ms is None else end_ms,
                parse_offsets(visit.arguments.get("at", "")),
                is_wanted,
            )
            found = await self._rows(group, scanned, find)
            wanted = {row.offset_id for row in page.rows}
            rows = [row for row in found if row.offset_id in wanted]
            data["shown"] = len(rows)
            data["ranges"] = [one.text for one in ranges]
            data["count"] = sum(one.end - one.begin for one in ranges)
            data["handled"] = await self._handled.count(group, ranges)
            if len(scanned) == data["count"]:
                data["resent"] = sum(row.resent_at is not None for row in found)
            if page.next_offsets is not None:
                at = ".".join(map(str, page.next_offsets))
                data["next"] = _given(begin=begin, end=end, state=visit.arguments.get("state", ""), at=at)
        columns = _columns(rows)
        if visit.access < Access.OPERATOR:
            columns = tuple(column for column in columns if column.kind is not Kind.CHOICE)
        table = Table(
            "letters",
            LetterRow,
            rows,
            columns,
            choices=(_STATE,),
            sort="stored_at",
            empty="There are no dead letters in this period."
            if not data["handled"]
            else "There are no such dead letters in this part of the period.",
            size=PAGE,
        )
        return View("Dead letters", "dead_letters/group.html", data, [table], group)

    async def progress(self, visit: Visit) -> View:
        """The group's run in progress, or the last one."""
        group = visit.path["group"]
        run = self._resends.last(group)
        if run is None:
            raise NotFound(
                "no dead letters of {group} have been resent since the console started",
                "The table of dead letters shows which ones were resent.",
                group=group,
            )
        return View(
            "Dead letters", "dead_letters/progress.html", {"group": group, "run": run, "done": run.done}, (), group
        )

    # ---- changes

    async def resend(self, visit: Visit, form: ResendForm) -> Outcome:
        """Sends chosen dead letters again, those that were not before.

        Raises if the first one fails. Later, what fails only for one message is counted, and any other failure ends it.
        """
        group = visit.path["group"]
        if not form.message:
            raise Invalid("no dead letter is selected", "Select some in the table.")
        copies: dict[str, str] = {}
        skipped = failed = tried = 0
        problem = ""
        chosen = list(dict.fromkeys(form.message))
        for offset_id in chosen:
            tried += 1
            try:
                message_id, copy_id = await self._resend_one(visit, offset_id, form)
            except (HeadraceError, ConsoleError) as error:
                if not copies and not skipped:
                    raise
                failed += 1
                problem = f"{offset_id}: {error}"
                if not isinstance(error, FAILURES_OF_ONE):
                    break
            else:
                if copy_id is None:
                    skipped += 1
                else:
                    copies[message_id] = copy_id
        counts = {"sent": len(copies), "skipped": skipped}
        if not failed:
            return Outcome(
                "Dead letters resent: {sent}. Skipped because they had been resent before: {skipped}.",
                counts,
                path_of("dead-letters", group),
                after={"to": form.to, "copies": copies, "skipped": skipped},
            )
        counts |= {"failed": failed, "left": len(chosen) - tried}
        return Outcome(
            "Dead letters resent: {sent}. Skipped because they had been resent before: {skipped}. Failed: {failed}. "
            "Not tried: {left}. Cause: {problem}",
            {**counts, "problem": problem},
            path_of("dead-letters", group),
            after={"to": form.to, "copies": copies, **counts, "problem": problem},
            is_warning=True,
        )

    async def resend_all(self, visit: Visit, form: ResendAllForm) -> Outcome:
        """Starts a run in the background."""
        group = visit.path["group"]
        run = self._resends.start(visit, group, parse_ranges(group, form.range), form.to, form.rate)
        return Outcome(
            "The dead letters are being resent.",
            {},
            path_of("dead-letters", group, "progress"),
            after={"to": form.to, "rate": form.rate, "total": run.total, "ranges": form.range},
        )

    async def cancel(self, visit: Visit, _form: CancelForm) -> Outcome:
        """Ends the run in progress."""
        group = visit.path["group"]
        run = self._resends.cancel(group)
        return Outcome(
            "Sending was cancelled after {done} of {total} messages.",
            {"done": run.done, "total": run.total},
            path_of("dead-letters", group, "progress"),
            after={"sent": run.sent, "total": run.total},
        )

    # ----

    async def _resend_one(self, visit: Visit, offset_id: str, form: ResendForm) -> tuple[str, str | None]:
        """The id of a dead letter, and that of its copy, None if it was sent before. Raises HeadraceError, ConsoleError."""
        group = visit.path["group"]
        message = await find_letter(self._messages, group, offset_id)
        return message.message_id, await self._resends.send(group, message, form.to, visit.user, again=form.again)

    async def _rows(self, group: str, messages: Sequence[MessageRow], find: FindMark) -> list[LetterRow]:
        letters = [Letter(group, one.offset_id, one.id) for one in messages]
        resent = await asyncio.to_thread(self._book.find, letters)
        stored_at = {one.id: one.stored_at for one in messages}  # retries and dead letters keep their message's id
        rows = []
        for letter, one in zip(letters, messages, strict=True):
            entry, mark = resent.get(letter), _mark_of(one, find)
            rows.append(
                LetterRow(
                    one.offset_id,
                    one.id,
                    one.stored_at,
                    one.properties.get(property_names.RETRY_TOPIC, ""),
                    one.properties.get(property_names.ORIGIN_MESSAGE_ID, one.id),
                    one.retries,
                    one.tag,
                    one.keys,
                    one.size,
                    one.body,
                    None if entry is None else entry.at_ms,
                    None if entry is None else entry.copy_id,
                    None if entry is None else stored_at.get(entry.copy_id),
                    None if mark is None else mark.at_ms,
                    "" if mark is None else mark.user,
                    "" if mark is None else mark.note,
                )
            )
        return rows

    async def _add_counts(self, rows: Sequence[GroupRow]) -> Sequence[GroupRow]:
        answers = await self._cluster.map(self._topics.statistics, [dlq_topic(row.group) for row in rows])
        enriched = []
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, Exception):
                enriched.append(msgspec.structs.replace(row, problem=str(answer)))
                continue
            queues = answer.offset_table
            stored = [LetterRange(queue, one.min_offset, one.max_offset) for queue, one in queues.items()]
            messages = sum(one.end - one.begin for one in stored)
            enriched.append(
                msgspec.structs.replace(
                    row,
                    messages=messages,
                    unhandled=messages - await self._handled.count(row.group, stored),
                    last=max((one.last_update_timestamp for one in queues.values()), default=0),
                )
            )
        return enriched


def _mark_of(row: MessageRow, find: FindMark) -> Mark | None:
    return find(row.offset_id, row.queue, row.queue_offset)


def _columns(rows: Sequence[LetterRow]) -> tuple[Column[LetterRow], ...]:
    """Tags and original ids have no columns of their own where there are those of what was done, which need their room."""
    if not any(row.resent_at or row.handled_at for row in rows):
        return _LETTER_COLUMNS
    columns = {column.key: column for column in _LETTER_COLUMNS}
    for outer, inner in (("id", "original_id"), ("original_topic", "tag")):
        columns[outer] = replace(columns[outer], below=(columns.pop(inner),))
    return tuple(columns.values())


def _given(**arguments: str) -> dict[str, str]:
    return {name: value for name, value in arguments.items() if value}
