"""Dead letters with their whole bodies, and with what was done about them, as JSON Lines or CSV, read and sent a few at a time."""

import asyncio
import base64
from typing import Any, Final

import msgspec
from sanic import HTTPResponse, Request

from headrace import MessageExt
from headrace.errors import RemoteProtocolError
from headrace.model.host import format_host
from web.errors import Invalid, NotFound
from web.pages.dead_letters.handled_book import Mark
from web.pages.dead_letters.handled_letters import HandledLetters
from web.pages.dead_letters.letter_queues import LetterQueues
from web.pages.dead_letters.resend_book import Letter, ResendBook, Resent
from web.pages.downloads import Downloads
from web.pages.groups.resets import parse_time
from web.pages.messages.bodies import body_of
from web.pages.messages.copies import original_id, original_topic
from web.routes import Visit
from web.tables.export import EXPORT_TYPES, to_csv, to_json_lines
from web.tables.table import Column, Kind

_AT_ONCE: Final = 4  # limit: exports in progress, some megabytes of memory each
_MOST_BODY: Final = 8 << 20  # limit: bytes of a body; few compressed bytes may stand for many


class LetterLine(msgspec.Struct, frozen=True):
    """One dead letter. The body is text if it is UTF-8, otherwise Base64."""

    group: str
    id: str
    original_id: str
    original_topic: str
    retries: int
    stored_at: int
    born_at: int
    born_host: str
    tag: str
    keys: list[str]
    properties: dict[str, str]
    body: str | None
    body_base64: str | None
    body_problem: str
    """Why the body is missing or incomplete."""
    resent_at: int | None
    """When it was sent again; None: not yet."""
    copy_id: str | None
    """As that of the page: empty if the console does not know whether the copy was stored."""
    handled_at: int | None
    """When it was marked as handled; None: it is not."""
    handled_by: str
    note: str


_COLUMNS: Final[tuple[Column[LetterLine], ...]] = tuple(
    Column(name, "", Kind.LIST if name == "keys" else Kind.TEXT) for name in LetterLine.__struct_fields__
)


class LetterExport:
    """Serves exports."""

    def __init__(self, queues: LetterQueues, book: ResendBook, handled: HandledLetters) -> None:
        self._queues = queues
        self._book = book
        self._handled = handled
        self._downloads = Downloads(_AT_ONCE)

    async def answer(self, request: Request, visit: Visit) -> HTTPResponse | None:
        """The dead letters of a group in a range of time. What fails after the beginning breaks the download off."""
        group, kind = visit.path["group"], visit.arguments.get("format", "jsonl")
        if kind not in EXPORT_TYPES:
            raise Invalid(
                "format={kind} is not one of {choices}", kind=repr(kind[:80]), choices=", ".join(EXPORT_TYPES)
            )
        if not await self._queues.exists(group):
            raise NotFound("the group {group} has no dead letters", "Choose one from the list.", group=group)
        begin, end = visit.arguments.get("begin"), visit.arguments.get("end")
        ranges = await self._queues.ranges(
            group, parse_time(begin) if begin else 0, parse_time(end, is_end=True) if end else None
        )
        find = await self._handled.finder(group)
        with self._downloads.place():
            headers = {
                "Content-Disposition": f'attachment; filename="dead-letters.{kind}"',
                "Cache-Control": "no-store",
            }
            response: Any = await request.respond(content_type=EXPORT_TYPES[kind], headers=headers)
            try:
                if kind == "csv":
                    await response.send(next(to_csv(_COLUMNS, [])))
                async for message in self._queues.read(ranges):
                    letter = Letter(group, message.offset_message_id, message.message_id)
                    resent = (await asyncio.to_thread(self._book.find, [letter])).get(letter)
                    mark = find(message.offset_message_id, message.queue_id, message.queue_offset)
                    line = _line(group, message, resent, mark)
                    await response.send(
                        list(to_csv(_COLUMNS, [line]))[1] if kind == "csv" else next(to_json_lines([line]))
                    )
                await response.eof()
            except Exception:
                # A file that merely ends would look complete.
                transport: Any = request.transport
                transport.abort()
                raise
        return None


def _line(group: str, message: MessageExt, resent: Resent | None, mark: Mark | None) -> LetterLine:
    text, coded, problem = None, None, ""
    try:
        body, is_whole = body_of(message, _MOST_BODY)
        problem = "" if is_whole else f"only the first {_MOST_BODY} bytes"
    except RemoteProtocolError as error:
        body, problem = message.body, f"as stored: {error}"
    try:
        text = body.decode()
    except UnicodeDecodeError:
        coded = base64.b64encode(body).decode()
    return LetterLine(
        group,
        message.message_id,
        original_id(message),
        original_topic(message),
        message.reconsume_times,
        message.store_timestamp,
        message.born_timestamp,
        format_host(message.born_host),
        message.tags or "",
        message.keys,
        message.properties,
        text,
        coded,
        problem,
        None if resent is None else resent.at_ms,
        None if resent is None else resent.copy_id,
        None if mark is None else mark.at_ms,
        "" if mark is None else mark.user,
        "" if mark is None else mark.note,
    )
