# cython: wraparound=False, cdivision=True
# ruff: noqa: PLR1714  (a set or tuple to look in is an object; comparisons are C)
"""The hot path of a pull: from the bytes of a PULL_MESSAGE frame to the bytes of its answer.

A module beside send.py, and like it: the common frame and nothing else (types in pull.pxd). JSON header, codes 11 and 361,
a plan made by the plain path for pulls of this kind, messages there. Pulls that find nothing, that are held, refused or
far behind are left, untouched, to the plain path (broker/pulling/pull_processor.py). A plan holds what the checks found out; all
plans are forgotten when a topic, a group, a subscription or an option changes.
"""

from collections.abc import Callable

import cython

from store.query.gather import Gatherer

if cython.compiled:
    from cython.cimports.libc.string import memcmp
else:
    from broker.connections.json_scan import BAD, parse_number, string_end
    from headrace.protocol.big_endian import load_u32

_PULL = 11
_LITE_PULL = 361
_COMMIT_OFFSET = 1
_SUBSCRIPTION = 4

# Places of the fields' values.
_GROUP = 0
_TOPIC = 1
_QUEUE_ID = 2
_QUEUE_OFFSET = 3
_MAX_COUNT = 4
_FLAGS = 5
_COMMIT = 6
_HOLD = 7
_EXPRESSION = 8
_VERSION = 9
_TYPE = 10
_FIELDS = 11


class PullPlan:
    """What the checks of a pull came to: which messages, from which broker next, of how many queues; and what came of it since the counts were taken."""

    def __init__(
        self, group: str, topic: str, queue_count: int, codes: set[int] | None, suggested_broker: int, slow_broker: int
    ) -> None:
        self.group = group
        self.topic = topic
        self.queue_count = queue_count
        self.codes = codes
        self.suggested_broker = suggested_broker
        self.slow_broker = slow_broker
        self.messages_out = 0
        self.bytes_out = 0
        self.pulls = memoryview(bytearray(8 * max(queue_count, 1))).cast("q")
        """How many were answered, by queue."""


class PullPath:
    """Answers the pulls it finds prepared.

    `read(plan, queue_id, offset, max_count)` gathers into the gatherer and returns (next, least, most, is_far_behind), or
    None where the plain path must see to it. `commit(group, topic, queue_id, offset)` takes a consumer's offset.
    """

    def __init__(
        self,
        gatherer: Gatherer,
        read: Callable[[PullPlan, int, int, int], tuple[int, int, int, bool] | None],
        commit: Callable[[str, str, int, int], None],
        commits: bool,
        version: int,
    ) -> None:
        self._gatherer = gatherer
        self._read = read
        self._commit = commit
        self._commits = commits
        self._plans: dict[tuple[object, ...], PullPlan] = {}
        self._tail = b',"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":%d}' % version
        self._counted: list[PullPlan] = []
        self.pulls_answered = 0
        """Pulls that were answered here, since the start."""
        if not cython.compiled:
            self._value_start = [0] * _FIELDS
            self._value_length = [0] * _FIELDS

    def prepare(
        self,
        plan: PullPlan,
        flags: int,
        subscription: str | None,
        sub_version: int,
        expression_type: str | None,
    ) -> None:
        """Lets pulls of this kind be answered here from now on. At most some thousand kinds are kept."""
        if len(self._plans) >= 65536:  # limit: kinds of pulls, each a few hundred bytes
            self._plans.clear()
        key = (
            plan.group.encode(),
            plan.topic.encode(),
            flags & _SUBSCRIPTION,
            b"" if subscription is None else subscription.encode(),
            sub_version,
            b"" if expression_type is None else expression_type.encode(),
        )
        self._plans[key] = plan

    def forget_plans(self) -> None:
        """Something that plans were made of has changed."""
        self._plans.clear()

    def take_counts(self) -> list[tuple[str, str, int, int, dict[int, int]]]:
        """What was answered since the last time: group, topic, messages, bytes, and pulls by queue."""
        counts = []
        for plan in self._counted:
            pulls = {}
            for queue_id in range(plan.queue_count):
                if plan.pulls[queue_id]:
                    pulls[queue_id] = plan.pulls[queue_id]
                    plan.pulls[queue_id] = 0
            counts.append((plan.group, plan.topic, plan.messages_out, plan.bytes_out, pulls))
            plan.messages_out = 0
            plan.bytes_out = 0
        self._counted.clear()
        return counts

    def answer(self, data: bytes, position: int) -> bytes | None:
        """The whole answer to the frame at `position`, which is complete; None: the plain path's."""
        p = data
        left = len(data) - position - 8
        if left < 0:
            return None
        # The highest byte of the header's length is its type, so that another type than JSON is a header too long.
        length = load_u32(p, position + 4)
        if (
            length > left
            or length > load_u32(p, position) - 4
            or not self._scan(p, position + 8, position + 8 + length)
        ):
            return None
        return self._answer(p, data)

    def _scan(self, p: bytes, at: int, end: int) -> bool:
        """Reads a header into `_opaque` and the places of the fields; False: not a frame for this path."""
        if end - at < 20 or p[at] != 123 or p[end - 1] != 125:
            return False
        for field in range(_FIELDS):
            self._value_length[field] = -1
        self._opaque = BAD
        code = 0
        flag = 0
        end -= 1
        at += 1
        while True:
            if at >= end or p[at] != 34:
                return False
            start = at + 1
            at = string_end(p, start, end)
            if at < 0 or at + 2 > end or p[at + 1] != 58:
                return False
            name = p[start]
            name_length = at - start
            at += 2
            if p[at] == 34:  # a string: language, remark, serializeTypeCurrentRPC
                at = string_end(p, at + 1, end)
                if at < 0 or (name != 108 and name != 115 and name != 114):
                    return False
                at += 1
            elif p[at] == 123:  # extFields
                if name != 101 or name_length != 9:
                    return False
                at = self._scan_fields(p, at + 1, end)
                if at < 0:
                    return False
            else:
                start = at
                while at < end and p[at] != 44:
                    at += 1
                number = parse_number(p, start, at - start)
                if number == BAD:
                    return False
                if name == 99 and name_length == 4:
                    code = number
                    if code != _PULL and code != _LITE_PULL:
                        return False
                elif name == 102 and name_length == 4:
                    flag = number
                elif name == 111 and name_length == 6:
                    self._opaque = number
                elif name != 118 or name_length != 7:
                    return False
            if at == end:
                break
            if p[at] != 44:
                return False
            at += 1
        return code != 0 and flag == 0 and self._opaque != BAD

    def _scan_fields(self, p: bytes, at: int, end: int) -> int:
        """Notes where the fields' values lie; returns the place behind the object, -1 if unusual."""
        while True:
            if at >= end or p[at] != 34:
                return -1
            start = at + 1
            at = string_end(p, start, end)
            if at < 0 or at + 3 > end or p[at + 1] != 58 or p[at + 2] != 34:
                return -1
            field = _field_of(p, start, at - start)
            start = at + 3
            at = string_end(p, start, end)
            if at < 0 or at + 1 >= end:
                return -1
            if field >= 0:
                if self._value_length[field] >= 0:
                    return -1
                self._value_start[field] = start
                self._value_length[field] = at - start
            at += 1
            if p[at] == 125:
                return at + 1
            if p[at] != 44:
                return -1
            at += 1

    def _field(self, data: bytes, field: int) -> bytes:
        start = self._value_start[field]
        return data[start : start + max(self._value_length[field], 0)]

    def _value(self, p: bytes, field: int) -> int:
        if self._value_length[field] < 0:
            return BAD
        return parse_number(p, self._value_start[field], self._value_length[field])

    def _answer(self, p: bytes, data: bytes) -> bytes | None:
        flags = self._value(p, _FLAGS)
        version = self._value(p, _VERSION)
        queue_id = self._value(p, _QUEUE_ID)
        offset = self._value(p, _QUEUE_OFFSET)
        max_count = self._value(p, _MAX_COUNT)
        if self._value_length[_TYPE] == 0:  # an empty type is not the same as none
            return None
        if flags == BAD or version == BAD or queue_id < 0 or offset < 0 or max_count < 0 or max_count > 65536:
            return None
        plan = self._plans.get(
            (
                self._field(data, _GROUP),
                self._field(data, _TOPIC),
                flags & _SUBSCRIPTION,
                self._field(data, _EXPRESSION),
                version,
                self._field(data, _TYPE),
            )
        )
        if plan is None or queue_id >= plan.queue_count:
            return None
        commit = BAD
        if flags & _COMMIT_OFFSET and self._commits:
            commit = self._value(p, _COMMIT)
            if commit == BAD:
                return None
        found = self._read(plan, queue_id, offset, max_count)
        if found is None:
            return None
        if commit != BAD:
            self._commit(plan.group, plan.topic, queue_id, commit)
        gatherer = self._gatherer
        self.pulls_answered += 1
        if plan.messages_out == 0:
            self._counted.append(plan)
        plan.messages_out += gatherer.count
        plan.bytes_out += gatherer.length
        plan.pulls[queue_id] += 1
        next_offset, least, most, is_far_behind = found
        head = b'{"code":0,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d"},' % (
            plan.slow_broker if is_far_behind else plan.suggested_broker, next_offset, least, most
        ) + b'"flag":1,"language":"JAVA","opaque":%d' % self._opaque + self._tail  # fmt: skip
        return gatherer.frame(head)


def _field_of(p: bytes, at: int, length: int) -> int:
    """The field of this name; -1 for one that is not needed here."""
    if length == 5:
        return _TOPIC if _is_name(p, at, b"topic", 5) else -1
    if length == 7:
        if _is_name(p, at, b"queueId", 7):
            return _QUEUE_ID
        return _FLAGS if _is_name(p, at, b"sysFlag", 7) else -1
    if length == 10:
        if _is_name(p, at, b"maxMsgNums", 10):
            return _MAX_COUNT
        return _VERSION if _is_name(p, at, b"subVersion", 10) else -1
    if length == 11:
        return _QUEUE_OFFSET if _is_name(p, at, b"queueOffset", 11) else -1
    if length == 12:
        if _is_name(p, at, b"commitOffset", 12):
            return _COMMIT
        return _EXPRESSION if _is_name(p, at, b"subscription", 12) else -1
    if length == 13:
        return _GROUP if _is_name(p, at, b"consumerGroup", 13) else -1
    if length == 14:
        return _TYPE if _is_name(p, at, b"expressionType", 14) else -1
    return -1


def _is_name(p: bytes, at: int, name: bytes, length: int) -> bool:
    if cython.compiled:
        return bool(memcmp(p + at, name, length) == 0)  # type: ignore[operator]
    return p[at : at + length] == name
