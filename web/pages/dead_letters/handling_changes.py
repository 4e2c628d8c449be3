"""HandlingChanges: dead letters are marked as handled, chosen ones or all in ranges, and the marks are removed."""

from typing import Annotated, Final

import msgspec

from web.errors import Invalid
from web.pages.dead_letters.handled_letters import HandledLetters
from web.pages.dead_letters.letter_queues import LetterQueues, LetterRange, find_letter, parse_ranges
from web.pages.messages.message_reads import MessageReads
from web.pages.messages.time_scan import PAGE
from web.paths import path_of
from web.routes import Change, Outcome, Route, Visit

_LONGEST_NOTE: Final = 500
Chosen = Annotated[list[str], msgspec.Meta(max_length=PAGE)]
"""Offset message ids."""
Ranges = Annotated[list[str], msgspec.Meta(max_length=500)]
Note = Annotated[str, msgspec.Meta(max_length=_LONGEST_NOTE)]


class HandleForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chosen dead letters, which are handled."""

    message: Chosen = []
    note: Note = ""


class HandleAllForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All dead letters in ranges of offsets, which are handled."""

    range: Ranges
    note: Note = ""


class UnhandleForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chosen dead letters, which are not handled after all."""

    message: Chosen = []


class UnhandleAllForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All dead letters in ranges of offsets, which are not handled after all."""

    range: Ranges


class HandlingChanges:
    """The changes of marks."""

    def __init__(self, messages: MessageReads, handled: HandledLetters) -> None:
        self._messages = messages
        self._handled = handled
        self._queues = LetterQueues(messages.cluster)

    def routes(self) -> list[Route]:
        """What it serves."""
        group = "/dead-letters/<group:str>"
        return [
            Change(
                f"{group}/handle",
                HandleForm,
                self.handle,
                "dead-letter.handle",
                "Mark selected dead letters as handled.",
            ),
            Change(
                f"{group}/handle-all",
                HandleAllForm,
                self.handle_all,
                "dead-letter.handle-all",
                "Mark all dead letters of a period as handled.",
            ),
            Change(
                f"{group}/unhandle",
                UnhandleForm,
                self.unhandle,
                "dead-letter.unhandle",
                "Mark selected dead letters as unhandled.",
            ),
            Change(
                f"{group}/unhandle-all",
                UnhandleAllForm,
                self.unhandle_all,
                "dead-letter.unhandle-all",
                "Mark all dead letters of a period as unhandled.",
            ),
        ]

    async def handle(self, visit: Visit, form: HandleForm) -> Outcome:
        """Marks chosen letters. Raises Invalid, HeadraceError."""
        return await self._mark(visit, await self._chosen(visit, form.message), form.note, {"messages": form.message})

    async def handle_all(self, visit: Visit, form: HandleAllForm) -> Outcome:
        """Marks all letters of ranges, none that is not stored yet. Raises Invalid, HeadraceError."""
        group = visit.path["group"]
        stored = {one.queue: one for one in await self._queues.ranges(group, 0, None)}
        ranges = [
            LetterRange(queue, max(begin, stored[queue].begin), min(end, stored[queue].end))
            for queue, begin, end in parse_ranges(group, form.range)
            if queue in stored
        ]
        return await self._mark(visit, ranges, form.note, {"ranges": form.range})

    async def unhandle(self, visit: Visit, form: UnhandleForm) -> Outcome:
        """Removes the marks of chosen letters. Raises Invalid, HeadraceError."""
        return await self._unmark(visit, await self._chosen(visit, form.message), {"messages": form.message})

    async def unhandle_all(self, visit: Visit, form: UnhandleAllForm) -> Outcome:
        """Removes the marks of all letters of ranges. Raises Invalid."""
        return await self._unmark(visit, parse_ranges(visit.path["group"], form.range), {"ranges": form.range})

    async def _mark(self, visit: Visit, ranges: list[LetterRange], note: str, what: dict[str, list[str]]) -> Outcome:
        group = visit.path["group"]
        count = await self._handled.mark(group, ranges, visit.user, note)
        return Outcome(
            "Dead letters marked as handled: {count}.",
            {"count": count},
            path_of("dead-letters", group),
            after={"count": count, "note": note, **what},
        )

    async def _unmark(self, visit: Visit, ranges: list[LetterRange], what: dict[str, list[str]]) -> Outcome:
        group = visit.path["group"]
        count = await self._handled.unmark(group, ranges)
        return Outcome(
            "Dead letters marked as unhandled: {count}.",
            {"count": count},
            path_of("dead-letters", group),
            before={"count": count, **what},
        )

    async def _chosen(self, visit: Visit, offset_ids: list[str]) -> list[LetterRange]:
        """Where the letters are. Raises Invalid, HeadraceError."""
        if not offset_ids:
            raise Invalid("no dead letter is selected", "Select some in the table.")
        group = visit.path["group"]

        async def place(offset_id: str) -> LetterRange:
            message = await find_letter(self._messages, group, offset_id)
            found = await self._handled.range_of(message)
            if found is None:
                raise Invalid(
                    "the broker of the message {offset_id} is not in this cluster",
                    "Check on the page Cluster that the broker is registered. If its address has changed, reload the page of the dead letters.",
                    offset_id=offset_id,
                )
            return found

        found = await self._messages.cluster.map(place, dict.fromkeys(offset_ids))
        for one in found:
            if isinstance(one, Exception):
                raise one
        return sorted(one for one in found if not isinstance(one, Exception))
