# cython: wraparound=False, cdivision=True
# ruff: noqa: PLR1714  (a set or tuple to look in is an object; comparisons are C)
"""The hot path of a pull: from the bytes of a PULL_MESSAGE frame to the bytes of its response.

Like `hot_send`, it takes the common frame only (types in the `.pxd`): a plain JSON header, codes 11 and 361, a plan that the plain path made
for pulls of this kind, existing messages. Pulls that find nothing, that are held, refused or far behind are left, unchanged, to the
plain path (broker/pulling/pull_processor.py). A plan holds the results of the checks; all plans are forgotten when a topic, a group, a
subscription or an option changes.
"""

from collections.abc import Callable
from typing import Any

import cython

from broker.header_scan import SCANNED, HeaderScan
from broker.signed_frame import SignedFrame
from store.query.gather import Gatherer

if not cython.compiled:
    from broker.header_scan import BAD
    from headrace.protocol.big_endian import copy_bytes

_SCANNED = SCANNED
_PULL = 11
_LITE_PULL = 361
_COMMIT_OFFSET = 1
_SUBSCRIPTION = 4

# The fields that are read, by their numbers, and after them those that are only signed.
_FIELDS = (
    b"consumerGroup",
    b"topic",
    b"queueId",
    b"queueOffset",
    b"maxMsgNums",
    b"sysFlag",
    b"commitOffset",
    b"subscription",
    b"subVersion",
    b"expressionType",
    b"AccessKey",
    b"Signature",
    b"SecurityToken",
    b"suspendTimeoutMillis",
    b"bname",
    b"maxMsgBytes",
    b"requestSource",
    b"proxyFrowardClientId",
    b"lo",
    b"ns",
    b"nsd",
    b"oway",
)
_GROUP = 0
_TOPIC = 1
_QUEUE_ID = 2
_QUEUE_OFFSET = 3
_MAX_COUNT = 4
_FLAGS = 5
_COMMIT = 6
_EXPRESSION = 7
_VERSION = 8
_TYPE = 9
_ACCESS_KEY = 10
_SIGNATURE = 11


class PullPlan:
    """The result of the checks of a pull: which messages, the next broker, the number of queues; and the counts since they were last taken."""

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
        """The number of answered pulls by queue."""


class PullPath:
    """Answers the pulls it finds prepared.

    `read(topic, queue_id, offset, max_count, codes)` gathers into the gatherer and returns (next, least, most, is_far_behind), or
    None if the plain path must handle the pull (`MessageGetter.try_gather`). `commit(group, topic, queue_id, offset)` stores a consumer's offset.
    """

    def __init__(
        self,
        gatherer: Gatherer,
        read: Callable[[str, int, int, int, set[int] | None], tuple[int, int, int, bool] | None],
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
        """Pulls answered here since the start."""
        self._scan = HeaderScan((_PULL, _LITE_PULL), _FIELDS, ignores_others=True)
        self._signed = SignedFrame(_FIELDS, _SIGNATURE)

    def limit(self, header_size: int) -> None:
        """Leaves frames with longer headers to the plain path."""
        self._scan.header_limit = header_size

    def prepare(
        self,
        plan: PullPlan,
        flags: int,
        subscription: str | None,
        sub_version: int,
        expression_type: str | None,
    ) -> None:
        """Prepares pulls of this kind to be answered here. At most a few thousand kinds are kept."""
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
        """Discards all plans, because something they depend on has changed."""
        self._plans.clear()

    def take_counts(self) -> list[tuple[str, str, int, int, dict[int, int]]]:
        """Returns what was answered since the last call: group, topic, messages, bytes, and pulls by queue."""
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

    def answer(self, data: bytes, position: int, access: Any = None) -> bytes | None:
        """Returns the complete response to the complete frame at `position`; None leaves it to the plain path.

        `access`: a `broker.connections.hot_access.HotAccess` if the frame has to be signed by an account that may pull.
        """
        p = data
        scan = self._scan
        if scan.scan(p, position, len(data)) != _SCANNED or scan.flag != 0:
            return None
        return self._answer(p, access)

    def _field(self, p: bytes, field: int) -> bytes:
        start = self._scan.starts[field]
        return copy_bytes(p, start, start + max(self._scan.lengths[field], 0))

    def _may_pull(self, p: bytes, plan: PullPlan, access: Any) -> bool:
        """Whether the scanned frame is signed by an account that is known here to be allowed such a pull."""
        key = access.key_of_consumer(self._field(p, _ACCESS_KEY), plan.group, plan.topic)
        return key is not None and self._signed.is_signed(p, self._scan, key)

    def _answer(self, p: bytes, access: Any) -> bytes | None:
        scan = self._scan
        flags = scan.number(p, _FLAGS)
        version = scan.number(p, _VERSION)
        queue_id = scan.number(p, _QUEUE_ID)
        offset = scan.number(p, _QUEUE_OFFSET)
        max_count = scan.number(p, _MAX_COUNT)
        if scan.lengths[_TYPE] == 0:  # an empty type is not the same as none
            return None
        if flags == BAD or version == BAD or queue_id < 0 or offset < 0 or max_count < 0 or max_count > 65536:
            return None
        plan = self._plans.get(
            (
                self._field(p, _GROUP),
                self._field(p, _TOPIC),
                flags & _SUBSCRIPTION,
                self._field(p, _EXPRESSION),
                version,
                self._field(p, _TYPE),
            )
        )
        if plan is None or queue_id >= plan.queue_count:
            return None
        if access is not None and not self._may_pull(p, plan, access):
            return None
        commit = BAD
        if flags & _COMMIT_OFFSET and self._commits:
            commit = scan.number(p, _COMMIT)
            if commit == BAD:
                return None
        found = self._read(plan.topic, queue_id, offset, max_count, plan.codes)
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
        ) + b'"flag":1,"language":"JAVA","opaque":%d' % scan.opaque + self._tail  # fmt: skip
        return gatherer.frame(head)
