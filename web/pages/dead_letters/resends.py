"""Resends: sends dead letters again, each once, and many of them in the background at a limited rate."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec

from headrace import BrokerError, HeadraceError, MessageExt, MessageInvalid, RouteNotFound
from headrace.errors import BrokerNotFound, NoNameServer, RemoteProtocolError
from web.cluster.cluster import Cluster
from web.errors import ConsoleError, Invalid, NotFound
from web.pages.dead_letters.handled_letters import HandledLetters
from web.pages.dead_letters.letter_queues import LetterQueues, LetterRange
from web.pages.dead_letters.resend_book import Letter, ResendBook
from web.pages.messages.copies import copy_for_group, copy_for_topic
from web.routes import Visit

Target = Literal["group", "topic"]
"""Who gets the copy: the group that failed to consume the message, or all groups of its original topic."""

_NOT_STORED: Final = (MessageInvalid, RouteNotFound, BrokerNotFound, NoNameServer, BrokerError)
FAILURES_OF_ONE: Final = (Invalid, NotFound, MessageInvalid, RemoteProtocolError)
"""What fails for one dead letter and not for the next one."""
_STOPPED: Final = "the console was stopped"
_FAILED: Final = "the console failed; the cause is in its log"
_MOST_RUNS: Final = 1_000  # limit: groups whose last run is remembered


class Run(msgspec.Struct):
    """One run over many dead letters of a group."""

    group: str
    user: str
    to: Target
    total: int
    rate: int
    started_ms: int
    ended_ms: int = 0
    sent: int = 0
    skipped: int = 0
    """They were sent again before."""
    failed: int = 0
    """Their bodies cannot be sent."""
    problem: str = ""
    """Why it stopped, or why the last failed one failed."""
    state: Literal["running", "cancelled", "stopped", "finished"] = "running"

    @property
    def done(self) -> int:
        """How many messages were dealt with."""
        return self.sent + self.skipped + self.failed


Audit = Callable[..., Any]
"""`AuditLog.add`."""


class Resends:
    """Sends dead letters again, and marks them as handled. At most one run for each group is in progress; it ends with the console's process, and can be started again."""

    def __init__(self, cluster: Cluster, book: ResendBook, handled: HandledLetters, audit: Audit) -> None:
        self._cluster = cluster
        self._book = book
        self._handled = handled
        self._audit = audit
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Waits until it is cancelled, and stops the runs in progress: for the console's tasks."""
        try:
            await asyncio.Event().wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(
        self,
        group: str,
        message: MessageExt,
        to: Target,
        user: str,
        *,
        again: bool = False,
        started_ms: int | None = None,
    ) -> str | None:
        """Sends one dead letter again; the copy's id, or None if it was sent before. Raises HeadraceError, Invalid.

        `started_ms`: when the run of which it is a part was started.
        """
        place = await self._handled.range_of(message)
        copy = copy_for_group(message, group) if to == "group" else copy_for_topic(message)
        letter = Letter(group, message.offset_message_id, message.message_id)
        if not await asyncio.to_thread(self._book.begin, letter, user, _now_ms(), again=again):
            return None
        try:
            result = await (await self._cluster.producer()).send(copy)
        except _NOT_STORED:
            if not again:
                await asyncio.to_thread(self._book.forget, letter)
            raise
        await asyncio.to_thread(self._book.finish, letter, result.message_id)
        if place is not None:
            await self._handled.mark(group, [place], user, "", started_ms)
        return result.message_id

    def last(self, group: str) -> Run | None:
        """The group's run in progress, or its last one since the console's start."""
        return self._runs.get(group)

    def start(self, visit: Visit, group: str, ranges: Sequence[LetterRange], to: Target, rate: int) -> Run:
        """Starts a run; `rate` is in messages per second. Raises Invalid if one is in progress."""
        last = self._runs.get(group)
        if last is not None and last.state == "running":
            raise Invalid(
                "dead letters of {group} are already being resent",
                "Wait until the resend has finished, or cancel it.",
                group=group,
            )
        run = Run(group, visit.user, to, sum(one.end - one.begin for one in ranges), rate, _now_ms())
        self._runs.pop(group, None)
        self._runs[group] = run
        while len(self._runs) > _MOST_RUNS:
            oldest = next((one for one, other in self._runs.items() if other.state != "running"), None)
            if oldest is None:
                break
            del self._runs[oldest]
        task = asyncio.create_task(self._work(visit, run, ranges))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    def cancel(self, group: str) -> Run:
        """Ends the run in progress after the message that is being sent. Raises NotFound."""
        run = self._runs.get(group)
        if run is None or run.state != "running":
            raise NotFound("no dead letters of {group} are being resent", "Reload the page.", group=group)
        run.state = "cancelled"
        return run

    async def _work(self, visit: Visit, run: Run, ranges: Sequence[LetterRange]) -> None:
        try:
            async for message in LetterQueues(self._cluster).read(ranges):
                if run.state != "running":
                    break
                if await self._send_one(run, message):
                    await asyncio.sleep(1 / run.rate)
            if run.state == "running":
                run.state = "finished"
        except asyncio.CancelledError:
            run.state, run.problem = "stopped", _STOPPED
            raise
        except (HeadraceError, ConsoleError) as error:
            run.state, run.problem = "stopped", str(error)
        except Exception:
            run.state, run.problem = "stopped", _FAILED
            raise
        finally:
            run.ended_ms = _now_ms()
            outcome = "done" if run.state == "finished" else f"{run.state}: {run.problem}".removesuffix(": ")
            counts = {"sent": run.sent, "skipped": run.skipped, "failed": run.failed}
            self._audit(visit.user, visit.address, "dead-letter.resend-all", run.group, outcome, after=counts)

    async def _send_one(self, run: Run, message: MessageExt) -> bool:
        """Whether a copy was sent. Raises HeadraceError for what would fail for the next message too."""
        try:
            copy_id = await self.send(run.group, message, run.to, run.user, started_ms=run.started_ms)
        except FAILURES_OF_ONE as error:
            run.failed += 1
            run.problem = f"{message.message_id}: {error}"
            return False
        if copy_id is None:
            run.skipped += 1
            return False
        run.sent += 1
        return True


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
