"""Live tail: the messages of a topic as they are stored, by server-sent events.

A stream costs brokers one request at a time: every second the ends of the topic's queues, then one pull after the other for what the rate
permits. Streams of one topic share them (`tail_messages`). Messages beyond the rate are skipped and counted. A stream ends after `_STREAM_S`,
and the browser opens it again where it ended (`Last-Event-ID`), so that a user whose session was closed sees nothing more.

    event: message   data: a TailRow
    event: skipped   data: how many messages were left out
    event: problem   data: why messages could not be read; the stream goes on
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from sanic import HTTPResponse, Request

from headrace import MessageQueue, RouteNotFound
from headrace.errors import HeadraceError
from web.cluster.cluster import Cluster
from web.errors import Invalid, NotFound, TooOften
from web.pages.tail_messages import TailMessage, TailMessages
from web.paths import path_of
from web.routes import Access, Query, Raw, Route, View, Visit

RATES: Final = (1, 5, 10, 20, 50)
"""Messages per second that a viewer may choose."""
MOST_PER_USER: Final = 3  # limit: a browser opens at most six connections to the console
MOST: Final = 20  # limit: streams in all; each shows at most 50 messages a second
_STREAM_S: Final = 60.0
_ROUND_S: Final = 1.0
_QUIET_S: Final = 10.0
_REST_S: Final = 5.0
"""The pause after a problem."""
_MOST_PULLED: Final = 32
_RETRY_MS: Final = 500


class TailPages:
    """The page of a topic's live tail, and its stream."""

    def __init__(self, cluster: Cluster, stream_s: float = _STREAM_S, round_s: float = _ROUND_S) -> None:
        self._cluster = cluster
        self._stream_s = stream_s
        self._round_s = round_s
        self._open: Counter[str] = Counter()
        # Those of the topics that are watched: each is dropped with its last stream.
        self._shared: WeakValueDictionary[str, TailMessages] = WeakValueDictionary()

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query(
                "/topics/<topic:str>/tail",
                self.show,
                "Show the live tail of a topic.",
                section="Topics",
                arguments={"rate": "At most so many messages a second."},
            ),
            Raw("/topics/<topic:str>/tail/events", self.stream, Access.VIEWER),
        ]

    async def show(self, visit: Visit) -> View:
        """The page; the browser opens the stream."""
        topic, rate = visit.path["topic"], _rate(visit)
        await self._queues(topic)
        data = {
            "topic": topic,
            "rate": rate,
            "rates": RATES,
            "events": path_of("topics", topic, "tail", "events", rate=rate),
        }
        return View("Live tail", "topics/tail.html", data, subject=topic)

    async def stream(self, request: Request, visit: Visit) -> HTTPResponse | None:
        """The stream of events, until it is `_STREAM_S` old or the browser leaves, which cancels it."""
        topic, rate = visit.path["topic"], _rate(visit)
        with self._place(visit.user):
            queues = await self._queues(topic)
            shared = self._shared.setdefault(topic, TailMessages(self._cluster, topic, self._round_s))
            ends = await shared.ends()
            at = _resumed(request.headers.get("last-event-id") or "", queues) or [ends.get(one, 0) for one in queues]
            response = await request.respond(
                content_type="text/event-stream",
                headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
            )
            await response.send(f"retry: {_RETRY_MS}\n\n")
            tail = _Tail(shared, queues, at, rate)
            until_s = time.monotonic() + self._stream_s
            sent_s = time.monotonic()
            while (now_s := time.monotonic()) < until_s:
                pause_s = self._round_s
                try:
                    events = await tail.next_events()
                except HeadraceError as error:
                    events, pause_s = [_event("problem", str(error))], _REST_S
                if events:
                    await response.send("".join(events))
                    sent_s = now_s
                elif now_s - sent_s >= _QUIET_S:
                    await response.send(": nothing new\n\n")
                    sent_s = now_s
                await asyncio.sleep(pause_s)
            await response.eof()
        return None

    @contextmanager
    def _place(self, user: str) -> Iterator[None]:
        if self._open[user] >= MOST_PER_USER or self._open.total() >= MOST:
            raise TooOften(
                "{user} has {open} live tails open; {total} are open in total",
                "Close one of them: each user may have {most_per_user} open, all users together {most}.",
                open=self._open[user],
                user=user,
                total=self._open.total(),
                most_per_user=MOST_PER_USER,
                most=MOST,
            )
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

    async def _queues(self, topic: str) -> list[MessageQueue]:
        try:
            return sorted(await self._cluster.read(("queues", topic), lambda admin: admin.subscribe_queues(topic)))
        except RouteNotFound as error:
            raise NotFound(
                "the topic {topic} does not exist", "Check its name in the list of topics.", topic=topic
            ) from error


class _Tail:
    """Where a stream is in each queue."""

    def __init__(self, shared: TailMessages, queues: Sequence[MessageQueue], at: list[int], rate: int) -> None:
        self._shared = shared
        self._queues = queues
        self._at = at
        self._rate = rate

    async def next_events(self) -> list[str]:
        """The events of one round: at most `rate` messages, the newest of each queue, and how many were skipped. Raises HeadraceError."""
        ends = await self._shared.ends()
        grown = [place for place, one in enumerate(self._queues) if ends.get(one, 0) > self._at[place]]
        messages: list[TailMessage] = []
        skipped = 0
        for number, place in enumerate(grown):
            queue = self._queues[place]
            share = min(_MOST_PULLED, (self._rate - len(messages)) // (len(grown) - number))
            begin = max(self._at[place], ends[queue] - share)
            skipped += begin - self._at[place]
            self._at[place] = begin
            if share:
                pulled = await self._shared.between(queue, begin, ends[queue])
                self._at[place] = max(pulled.next_offset, begin)
                messages += pulled.messages
        place_text = ".".join(map(str, self._at))
        events = [_event("skipped", str(skipped), place_text)] if skipped else []
        messages.sort(key=lambda one: one.stored_at)
        return events + [_event("message", one.text, place_text) for one in messages]


def _event(kind: str, data: str, place: str = "") -> str:
    """One event; its id is where the stream is then. A text is one line of JSON."""
    line = data if kind in ("message", "skipped") else json.dumps(data)
    head = f"event: {kind}\nid: {place}\n" if place else f"event: {kind}\n"
    return f"{head}data: {line}\n\n"


def _resumed(text: str, queues: Sequence[MessageQueue]) -> list[int] | None:
    """The offsets in the id of the last event that a browser got; None unless they fit the queues."""
    parts = text.split(".")
    is_valid = len(parts) == len(queues) and all(one.isascii() and one.isdecimal() and len(one) < 19 for one in parts)
    return [int(one) for one in parts] if is_valid else None


def _rate(visit: Visit) -> int:
    text = visit.arguments.get("rate", "10")
    if text not in map(str, RATES):
        raise Invalid("rate={text} is not one of {choices}", text=repr(text[:40]), choices=", ".join(map(str, RATES)))
    return int(text)
