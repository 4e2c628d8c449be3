"""Resets of a group's offsets, and copies of them to another group: what would change, and the change itself."""

import datetime as dt
import re
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from headrace import LATEST, ConfigError, OffsetChange
from headrace.model.message_queue import MessageQueue
from headrace.model.names import group_problem, is_retry_topic
from web.cluster.protection import check_group
from web.cluster.topic_reader import TopicReader
from web.errors import Invalid, QueryFailed
from web.pages.groups.group_reads import GroupReads
from web.paths import path_of
from web.routes import Outcome, View, Visit
from web.tables.table import Column, Kind, Table

F = TypeVar("F", bound=msgspec.Struct)
Where = Literal["time", "start", "end", "offset", "group"]
_NOTICED: Final = frozenset({"time", "start", "end"})
"""Resets of which brokers notify connected members; the others only change what is stored."""
_FIELDS: Final[Mapping[Where, frozenset[str]]] = {
    "time": frozenset({"time"}),
    "start": frozenset(),
    "end": frozenset(),
    "offset": frozenset({"offset", "broker", "queue"}),
    "group": frozenset({"source"}),
}
"""The fields that each kind of reset uses."""
_MOST: Final = (1 << 63) - 1
_CONTINUES: Final = (
    "Queues whose offsets were reset: {count}. The members continue at the new offsets after about ten seconds."
)
_CONTINUES_LATER: Final = (
    "Queues whose offsets were reset: {count}. No member is connected: the group continues there when one connects."
)
_COPIED: Final = "Queues whose offsets were copied from {source} to {group}: {count}."
_DAY_MS: Final = 86_400_000
_DATE: Final = re.compile(r"\d{4}[-/]\d\d[-/]\d\d", re.ASCII)
_TIME_OF_DAY: Final = re.compile(r"\d\d?(:\d\d){1,2}", re.ASCII)


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a group's offsets of a topic are reset to."""

    topic: str
    to: Where = "time"
    time: str = ""
    """For `time`: ISO 8601 in UTC unless it has a zone, or ms since 1970."""
    offset: Annotated[int, msgspec.Meta(ge=0, le=_MOST)] | None = None
    """For `offset`, of all queues or one."""
    broker: str = ""
    queue: Annotated[int, msgspec.Meta(ge=0, le=1 << 31)] | None = None
    """For `offset`: one queue, of `broker`; None: all."""
    source: str = ""
    """For `group`: the group whose offsets are copied."""


class Clone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The group to which the offsets of a topic are copied."""

    topic: str
    target: str
    """It need not exist."""


CLONE_ARGUMENTS: Final = {
    "topic": "The topic whose offsets are copied; without it there is no preview.",
    "target": "The group that gets the offsets; it need not exist.",
}
RESET_ARGUMENTS: Final = {
    "topic": "The topic whose offsets are reset; without it there is no preview.",
    "to": "`time`, `start`, `end`, `offset` or `group`.",
    "time": "For `time`: ISO 8601 in UTC unless it has a zone, or milliseconds since 1970.",
    "offset": "For `offset`: the offset of all queues, or of one.",
    "broker": "For `offset` of one queue: the name of its broker.",
    "queue": "For `offset` of one queue: its number.",
    "source": "For `group`: the group whose offsets are copied.",
}


class ChangeRow(msgspec.Struct, frozen=True):
    """One queue in a preview."""

    broker: str
    queue: int
    skipped: int
    """Messages that the group would not receive."""
    again: int
    """Messages that it would receive again."""
    stored_offset: int | None
    target_offset: int
    min_offset: int
    max_offset: int


_COLUMNS: Final[tuple[Column[ChangeRow], ...]] = (
    Column("broker", "Broker"),
    Column("queue", "Queue", Kind.NUMBER),
    Column("skipped", "Would be skipped", Kind.NUMBER, help="Messages that the group would not receive."),
    Column("again", "Would be consumed again", Kind.NUMBER, help="Messages that the group would receive again."),
    Column("stored_offset", "Consumer offset", Kind.NUMBER),
    Column("target_offset", "New offset", Kind.NUMBER),
    Column("min_offset", "Min offset", Kind.NUMBER),
    Column("max_offset", "Max offset", Kind.NUMBER),
)


def _table(changes: list[OffsetChange]) -> Table[ChangeRow]:
    rows = [
        ChangeRow(
            one.queue.broker_name,
            one.queue.queue_id,
            max(0, one.skipped),
            max(0, -one.skipped),
            one.stored_offset,
            one.target_offset,
            one.min_offset,
            one.max_offset,
        )
        for one in changes
    ]
    return Table("changes", ChangeRow, rows, _COLUMNS, sort="queue", empty="No queue would change.")


_IN_THE_FUTURE: Final = "The offsets are not reset to a time in the future. Enter a past time, or choose to continue with new messages only."
_NOTHING: Final = "Nothing would change: the group already has these offsets."


def _obstacle(table: Table[ChangeRow], *, is_future: bool = False) -> str:
    """Why there is nothing to confirm; empty if there is something."""
    if is_future:
        return _IN_THE_FUTURE
    return _NOTHING if all(row.stored_offset == row.target_offset for row in table.rows) else ""


def _sums(table: Table[ChangeRow]) -> dict[str, int]:
    return {"skipped": sum(row.skipped for row in table.rows), "again": sum(row.again for row in table.rows)}


class Resets:
    """Previews and carries out resets and copies."""

    def __init__(self, reads: GroupReads, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._reads = reads
        self._now_ms = now_ms

    async def show(self, visit: Visit) -> View:
        """The form, and the preview if a topic is given. Changes nothing."""
        group = visit.path["group"]
        data = {
            **await self._form_data(group),
            "to": visit.arguments.get("to", "time"),
            "reset": {},
            "members": 0,
            "moment": None,
            "is_future": False,
            "day_before": None,
        }
        if not visit.arguments.get("topic"):
            return View("Reset offsets", "groups/reset.html", data, subject=group)
        reset = _from_arguments(visit, Reset)
        table = _table(await self.plan(group, reset))
        moment = self._describe_moment(reset)
        data |= {
            **_sums(table),
            "obstacle": _obstacle(table, is_future=bool(moment.get("is_future"))),
            "reset": {key: value for key, value in msgspec.to_builtins(reset).items() if value not in {None, ""}},
            "members": await self._reads.member_count(group),
            "members_continue": reset.to in _NOTICED,
            **moment,
        }
        return View("Reset offsets", "groups/reset.html", data, [table], group)

    async def show_clone(self, visit: Visit) -> View:
        """The form of a copy to another group, and the preview if a topic is given. Changes nothing."""
        group = visit.path["group"]
        data = {**await self._form_data(group), "clone": {}, "is_new": False}
        if not visit.arguments.get("topic"):
            return View("Clone offsets from", "groups/clone.html", data, subject=group)
        clone = _from_arguments(visit, Clone)
        table = _table(await self._plan_clone(group, clone))
        settings, _ = await self._reads.settings()
        data |= {
            **_sums(table),
            "obstacle": _obstacle(table),
            "clone": msgspec.to_builtins(clone),
            "is_new": clone.target not in settings,
        }
        return View("Clone offsets from", "groups/clone.html", data, [table], group)

    async def _form_data(self, group: str) -> dict[str, object]:
        """The topics of the group, the ones of retries last."""
        stats = await self._reads.progress(group)
        topics = sorted({queue.topic for queue in stats.offset_table}, key=lambda topic: (is_retry_topic(topic), topic))
        own = [topic for topic in topics if not is_retry_topic(topic)]
        only_topic = own[0] if len(own) == 1 else ""
        return {"group": group, "topics": topics, "only_topic": only_topic, "skipped": 0, "again": 0, "obstacle": ""}

    def _describe_moment(self, reset: Reset) -> dict[str, object]:
        """The time of a reset, whether it is in the future, and the same time of the day before if that is past: a wrong day, perhaps."""
        if reset.to != "time":
            return {}
        moment, now = parse_time(reset.time), self._now_ms()
        is_near = now < moment <= now + _DAY_MS
        return {"moment": moment, "is_future": moment > now, "day_before": moment - _DAY_MS if is_near else None}

    async def plan(self, group: str, reset: Reset) -> list[OffsetChange]:
        """What the reset would change, a queue each. Raises Invalid, HeadraceError."""
        cluster = self._reads.cluster
        _check_fields(reset)

        async def preview(moment: int) -> list[OffsetChange]:
            key = ("reset", group, reset.topic, moment)
            return await cluster.read(key, lambda admin: admin.preview_reset(group, reset.topic, moment), fresh_s=0)

        if reset.to in _NOTICED:
            return await preview(_moment(reset))
        if count := await self._reads.member_count(group):
            raise Invalid(
                "the group {group} has {count} connected members, which would overwrite the offsets",
                "Stop its members first, or reset by time.",
                group=group,
                count=count,
            )
        now = await preview(LATEST)
        if reset.to == "offset":
            if reset.offset is None:
                raise Invalid("the offset is missing", "Enter the offset at which the group is to continue.")
            if bool(reset.broker) != (reset.queue is not None):
                raise Invalid(
                    "broker and queue must be entered together",
                    "Enter both to reset one queue, or neither to reset all.",
                )
            chosen = [
                one
                for one in now
                if reset.queue is None or (one.queue.broker_name, one.queue.queue_id) == (reset.broker, reset.queue)
            ]
            if not chosen:
                raise Invalid(
                    "the topic {topic} has no queue {queue} on the broker {broker}",
                    "The page of the group lists its queues.",
                    topic=reset.topic,
                    queue=reset.queue,
                    broker=reset.broker,
                )
            return [_moved(one, reset.offset) for one in chosen]
        return await self._plan_copy(group, reset, now)

    async def _plan_copy(self, group: str, reset: Reset, now: list[OffsetChange]) -> list[OffsetChange]:
        """The changes of a copy. Brokers answer 0 for a queue without an offset, so the tables of offsets decide which queues have one."""
        if not reset.source:
            raise Invalid("the source group is missing", "Enter the group whose offsets are to be copied.")
        if reset.source == group:
            raise Invalid(
                "the offsets of {group} cannot be copied to the group itself", "Enter another group.", group=group
            )
        stored = await TopicReader(self._reads.cluster).group_offsets({reset.topic})
        if stored.problems:
            raise QueryFailed(
                "; ".join(stored.problems), "Check that the brokers are running and reachable, then reload the page."
            )
        by_group = stored.by_topic.get(reset.topic, {})
        offsets, own = by_group.get(reset.source, {}), by_group.get(group, {})
        copied = [
            _moved(OffsetChange(one.queue, one.min_offset, one.max_offset, own.get(one.queue), 0), offsets[one.queue])
            for one in now
            if one.queue in offsets
        ]
        if copied:
            return copied
        settings, _ = await self._reads.settings()
        if reset.source not in settings:
            raise Invalid(
                "the consumer group {group} does not exist",
                "Choose one from the list of consumer groups.",
                group=reset.source,
            )
        raise Invalid(
            "the group {source} has no offsets for the topic {topic}",
            "Its page lists the topics for which it has offsets.",
            source=reset.source,
            topic=reset.topic,
        )

    async def _plan_clone(self, source: str, clone: Clone) -> list[OffsetChange]:
        """What the copy would change of the target, a queue each. Raises Invalid, HeadraceError."""
        if problem := group_problem(clone.target):
            raise ConfigError(problem, "target")
        return await self.plan(clone.target, Reset(clone.topic, "group", source=source))

    async def run(self, visit: Visit, reset: Reset) -> Outcome:
        """Carries a reset out. Raises Invalid, HeadraceError."""
        group = visit.path["group"]
        check_group(group)
        changes = await self.plan(group, reset)
        if reset.to not in _NOTICED:
            return await self._store(group, changes, reset.source)
        has_members = await self._reads.member_count(group) > 0
        after = await self._reads.cluster.admin.reset_offsets(group, reset.topic, _moment(reset))
        return _outcome(_CONTINUES if has_members else _CONTINUES_LATER, group, changes, after)

    async def run_clone(self, visit: Visit, clone: Clone) -> Outcome:
        """Carries a copy to another group out. Raises Invalid, HeadraceError."""
        check_group(clone.target)
        source = visit.path["group"]
        return await self._store(clone.target, await self._plan_clone(source, clone), source)

    async def _store(self, group: str, changes: list[OffsetChange], source: str) -> Outcome:
        """Stores the offsets of a group without members; `source` is the group from which they were copied."""
        after = {}
        for one in changes:
            await self._reads.cluster.admin.update_consumer_offset(group, one.queue, one.target_offset)
            after[one.queue] = one.target_offset
        return _outcome(_COPIED if source else _CONTINUES_LATER, group, changes, after, source)


def _outcome(
    message: str, group: str, changes: list[OffsetChange], after: Mapping[MessageQueue, int], source: str = ""
) -> Outcome:
    return Outcome(
        message,
        {"count": len(after), "group": group, "source": source},
        path_of("groups", group),
        {_name(one.queue): one.stored_offset for one in changes},
        {_name(queue): offset for queue, offset in sorted(after.items())},
    )


def parse_time(text: str, *, is_end: bool = False) -> int:
    """Ms since 1970 of ISO 8601 (UTC unless it has a zone), of a time of today, or of a number of ms. Raises Invalid.

    A date alone is the beginning of its day; with `is_end` its last millisecond.
    """
    if text.isascii() and text.isdecimal() and len(text) <= 14:
        return int(text)
    try:
        if _TIME_OF_DAY.fullmatch(text):
            text = f"{dt.datetime.now(dt.UTC):%Y-%m-%d} {text if text[2] == ':' else '0' + text}"
        moment = dt.datetime.fromisoformat(text.replace("/", "-"))
        if is_end and _DATE.fullmatch(text):
            moment += dt.timedelta(days=1, milliseconds=-1)
    except (ValueError, OverflowError) as error:
        raise Invalid(
            "{text} is not a valid time", "Enter a time such as 2026-11-23 09:00:00.", text=repr(text[:80])
        ) from error
    return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000))


def _from_arguments(visit: Visit, kind: type[F]) -> F:
    """The form as it is in an address, which also has arguments of tables."""
    known = {field.name for field in msgspec.structs.fields(kind)}
    given = {key: value.strip() for key, value in visit.arguments.items() if value.strip() and key in known}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid("the request is invalid: {error}", "Correct the parameter and try again.", error=error) from error


def _check_fields(reset: Reset) -> None:
    """A field that the kind of reset does not use is refused: whoever entered it expects something else. Raises Invalid."""
    given = {
        "time": reset.time,
        "offset": reset.offset is not None,
        "broker": reset.broker,
        "queue": reset.queue is not None,
        "source": reset.source,
    }
    extra = [name for name, is_given in given.items() if is_given and name not in _FIELDS[reset.to]]
    if extra:
        raise Invalid(
            "the fields {fields} do not apply to a reset to {to}",
            "Leave them empty, or choose another place to continue at.",
            fields=", ".join(extra),
            to=reset.to,
        )


def _moment(reset: Reset) -> int:
    return {"start": 0, "end": LATEST}.get(reset.to, 0) if reset.to != "time" else parse_time(reset.time)


def _moved(one: OffsetChange, offset: int) -> OffsetChange:
    """The change with another target, within the queue's bounds."""
    target = min(max(offset, one.min_offset), one.max_offset)
    return OffsetChange(one.queue, one.min_offset, one.max_offset, one.stored_offset, target)


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name} {queue.queue_id}"
