"""TransactionCheck: compares half messages with op messages and asks producers about unresolved ones (store spec 11.5). Masters only.

Each `transactionCheckInterval` there is a round, which ends at the first half message that is too recent. A checked message is stored again after
all others, so a round never handles it twice. The progress of a round is stored among the consumer offsets, under the group
CID_RMQ_SYS_TRANS. After a kill, the next round begins at the stored progress: some messages are checked twice. Progress is not stored before
the copies of the round are durable; otherwise a power cut could lose them.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from broker.clients.offsets import NO_OFFSET, OffsetTable
from broker.transactions.half_messages import REMOVED, half_to_check_again, half_to_discard, half_to_keep_immune
from broker.transactions.verdict import Ops, Rules, Verdict, advanced, asked_enough, check_times, first_offset, judge
from headrace.model import properties
from headrace.model.message import MessageExt
from headrace.model.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_HALF_TOPIC
from headrace.protocol.record import decode_record, decode_records
from store.commit_log.message import MessageToStore, PutResult
from store.query.get import GetResult
from store.status import GetMessageStatus, PutMessageStatus

logger = logging.getLogger(__name__)

_OPS_A_READ = 32
_LONGEST_ROUND_MS = 60_000
_PAUSE_S = 0.1  # limit: before the same half message is checked again
_FLUSH_POLL_S = 0.05
_OPTIONS_S = 1.0  # limit: how late a changed transactionCheckInterval is noticed
_CHUNK = 32  # limit: half messages handled before other requests are served

_NOTHING_NEW = (GetMessageStatus.NO_MESSAGE_IN_QUEUE, GetMessageStatus.OFFSET_OVERFLOW_ONE)

Place = tuple[str, int]
"""Topic and queue id."""

Read = Callable[[str, int, int, int], GetResult]
"""(topic, queue id, offset, most messages): what a pull would be told."""


class LogOffsets(Protocol):
    """The progress of the log; a ControlBlock has these."""

    @property
    def wrote_offset(self) -> int:
        """End of the last complete record."""

    @property
    def flushed_offset(self) -> int:
        """Everything below is durable."""


async def _sleep_for(interval_ms: Callable[[], int]) -> None:
    """Sleeps until the interval has passed; changes of the interval apply."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(0)
    while (left_s := began + interval_ms() / 1000 - loop.time()) > 0:  # noqa: ASYNC110  (options change without an event)
        await asyncio.sleep(min(left_s, _OPTIONS_S))


class TransactionCheck:
    """Runs the rounds.

    `queue_count()`: the number of queues of the half topic; `ensure_discard_topic()` creates the topic of discarded messages if it does not exist; `append` stores
    at once, None while there is no file; `ask` sends a check request.
    """

    def __init__(
        self,
        offsets: OffsetTable,
        read: Read,
        min_offset: Callable[[str, int], int],
        append: Callable[[MessageToStore], PutResult | None],
        ask: Callable[[MessageExt], object],
        rules: Callable[[], Rules],
        queue_count: Callable[[], int],
        ensure_discard_topic: Callable[[], object],
        log: LogOffsets,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._offsets = offsets
        self._read = read
        self._min_offset = min_offset
        self._append = append
        self._ask = ask
        self._rules = rules
        self._queue_count = queue_count
        self._ensure_discard_topic = ensure_discard_topic
        self._log = log
        self._clock_ms = clock_ms
        self._reached: dict[Place, int] = {}
        """Where the next round begins."""
        self._unsaved: deque[tuple[int, dict[Place, int]]] = deque()
        """The offset up to which the log must be durable before this is stored."""
        self._saving = asyncio.Event()

    async def run(self, interval_ms: Callable[[], int]) -> None:
        """A round each interval until it is cancelled."""
        saving = asyncio.create_task(self._keep_saving())
        try:
            while True:
                await _sleep_for(interval_ms)
                try:
                    await self.round()
                except Exception:  # the outermost loop of the check
                    logger.exception("transaction check failed, will retry in the next round")
        finally:
            saving.cancel()

    async def round(self) -> None:
        """Checks the half messages of each queue once."""
        try:
            for queue_id in range(self._queue_count()):
                await _Round(self, queue_id).run()
        finally:
            self._unsaved.append((self._log.wrote_offset, dict(self._reached)))
            self.save()
            self._saving.set()

    def save(self, *, all_of_it: bool = False) -> None:
        """Stores the progress of the rounds, as far as the log is durable; `all_of_it` at a stop, when it will be."""
        while self._unsaved and (all_of_it or self._log.flushed_offset >= self._unsaved[0][0]):
            for (topic, queue_id), offset in self._unsaved.popleft()[1].items():
                if self._offsets.query(TRANSACTION_GROUP, topic, queue_id) != offset:
                    self._offsets.commit(TRANSACTION_GROUP, topic, queue_id, offset)

    async def _keep_saving(self) -> None:
        while True:
            if self._unsaved:
                await asyncio.sleep(_FLUSH_POLL_S)
                self.save()
            else:
                self._saving.clear()
                await self._saving.wait()

    # -- what a round asks ------------------------------------------------------------------------------------------------

    def progress(self, topic: str, queue_id: int) -> int:
        """Where a round begins in this queue."""
        offset = self._reached.get((topic, queue_id), NO_OFFSET)
        if offset == NO_OFFSET:
            offset = self._offsets.query(TRANSACTION_GROUP, topic, queue_id)
        return self._min_offset(topic, queue_id) if offset == NO_OFFSET else offset

    def keep(self, topic: str, queue_id: int, offset: int) -> None:
        """The next round begins here."""
        self._reached[topic, queue_id] = offset

    def read(self, topic: str, queue_id: int, offset: int, most: int) -> GetResult:
        """Messages of a queue."""
        return self._read(topic, queue_id, offset, most)

    def store(self, message: MessageToStore) -> PutResult | None:
        """Stores a message; None if that failed."""
        result = self._append(message)
        return result if result is not None and result.status is PutMessageStatus.PUT_OK else None

    def discard(self, half: MessageExt, found: dict[str, str]) -> bool:
        """Stores a half message with these properties among the discarded ones. Returns whether this succeeded."""
        self._ensure_discard_topic()
        logger.warning(
            "half message discarded queue_offset=%d message=%s checks=%s",
            half.queue_offset, half.message_id, half.properties.get(properties.TRANSACTION_CHECK_TIMES, "0"),
        )  # fmt: skip
        return self.store(half_to_discard(half, found)) is not None

    def ask(self, half: MessageExt) -> None:
        """Sends a check request to a producer."""
        self._ask(half)

    def now_ms(self) -> int:
        """The wall clock."""
        return self._clock_ms()

    def rules(self) -> Rules:
        """The current settings."""
        return self._rules()


class _Round:
    """One check of one queue."""

    def __init__(self, check: TransactionCheck, queue_id: int) -> None:
        self._check = check
        self._queue_id = queue_id
        self._begin_ms = check.now_ms()
        self._rules = check.rules()
        self._half_offset = check.progress(TRANSACTION_HALF_TOPIC, queue_id)
        self._op_offset = self._next_op = check.progress(TRANSACTION_OP_HALF_TOPIC, queue_id)
        self._resolved: dict[int, int] = {}
        """Queue offsets of half messages named by op messages, with the offsets of the op messages."""
        self._unmet: dict[int, int] = {}
        """The number of half messages named by an op message that have not been reached yet, by its queue offset."""
        self._done: list[int] = []
        """Queue offsets of op messages that are no longer needed."""
        self._ops = Ops(None)

    async def run(self) -> None:
        """Processes half messages as far as possible, and stores the progress."""
        check, queue_id = self._check, self._queue_id
        if self._half_offset < 0 or self._op_offset < 0:
            return
        self._read_ops()
        try:
            offset = await self._walk()
        finally:
            op_offset = advanced(self._op_offset, self._done)
        if offset != self._half_offset:
            check.keep(TRANSACTION_HALF_TOPIC, queue_id, offset)
        if op_offset != self._op_offset:
            check.keep(TRANSACTION_OP_HALF_TOPIC, queue_id, op_offset)

    async def _walk(self) -> int:
        """The offset of the first half message of the next round."""
        offset = self._half_offset
        nothing_found = 0
        handled = 0
        while self._check.now_ms() - self._begin_ms <= _LONGEST_ROUND_MS:
            handled += 1
            if handled % _CHUNK == 0:
                await asyncio.sleep(0)
            if offset in self._resolved:
                self._meet(offset)
                offset += 1
                continue
            found = self._check.read(TRANSACTION_HALF_TOPIC, self._queue_id, offset, 1)
            if found.count == 0:
                nothing_found += 1
                if nothing_found > 1 or found.status in _NOTHING_NEW:
                    break
                offset = found.next_begin_offset
                continue
            half = decode_record(found.body)
            offset = half.queue_offset  # not the requested one if there are damaged records in between
            if offset in self._resolved:
                continue
            verdict, is_done = self._handle(half)
            if verdict is Verdict.STOP:
                break
            if is_done:
                offset += 1
            elif verdict is not Verdict.READ_OPS or self._ops.last_born_ms is None:
                await asyncio.sleep(_PAUSE_S)
        return offset

    def _handle(self, half: MessageExt) -> tuple[Verdict, bool]:
        """The verdict, and whether it is carried out and the next half message may come."""
        verdict = self._judge(half)
        if verdict is Verdict.PUT_BACK:
            if self._check.store(half_to_keep_immune(half, check_times(half))) is not None:
                return verdict, True
            verdict = self._judge(half, can_put_back=False)
        if verdict is Verdict.RESOLVED:
            self._meet(first_offset(half) or 0)
            return verdict, True
        if verdict is Verdict.DISCARD:
            return verdict, self._check.discard(half, asked_enough(half, self._rules))
        if verdict is Verdict.CHECK:
            return verdict, self._ask(half)
        if verdict is Verdict.READ_OPS:
            self._read_ops()
        return verdict, False

    def _judge(self, half: MessageExt, can_put_back: bool = True) -> Verdict:
        now_ms = self._check.now_ms()
        return judge(half, self._resolved, self._ops, self._begin_ms, now_ms, self._rules, can_put_back)

    def _ask(self, half: MessageExt) -> bool:
        """Stores the half message again, and sends a check request for the copy."""
        again = half_to_check_again(half, check_times(half))
        result = self._check.store(again)
        if result is None:
            return False
        text = again.properties.decode()
        self._check.ask(
            replace(
                half,
                queue_offset=result.queue_offset,
                physical_offset=result.physical_offset,
                properties=properties.decode_properties(text),
                properties_raw=again.properties,
            )
        )
        return True

    def _read_ops(self) -> None:
        """Reads further op messages."""
        found = self._check.read(TRANSACTION_OP_HALF_TOPIC, self._queue_id, self._next_op, _OPS_A_READ)
        self._ops = Ops(None)
        if found.count == 0:
            if found.status not in _NOTHING_NEW:
                # The queue begins later or ends before: the stored offset is corrected.
                self._check.keep(TRANSACTION_OP_HALF_TOPIC, self._queue_id, found.next_begin_offset)
                self._next_op = found.next_begin_offset
            return
        ops = decode_records(found.body)
        # A damaged op message is skipped and must not block later ones.
        read = {op.queue_offset for op in ops}
        self._done.extend(offset for offset in range(self._next_op, found.next_begin_offset) if offset not in read)
        for op in ops:
            self._note(op)
        self._next_op = found.next_begin_offset
        self._ops = Ops(ops[-1].born_timestamp)

    def _note(self, op: MessageExt) -> None:
        if op.tags != REMOVED:
            logger.error("unknown op message skipped queue_offset=%d tags=%s", op.queue_offset, op.tags)
            return
        # RocketMQ 5 puts several into one op message.
        names = [
            int(text) for text in op.body.decode(errors="replace").split(",") if text.isascii() and text.isdecimal()
        ]
        ahead = [name for name in names if name >= self._half_offset]
        for name in ahead:
            self._resolved[name] = op.queue_offset
        if ahead:
            self._unmet[op.queue_offset] = len(ahead)
        else:
            self._done.append(op.queue_offset)

    def _meet(self, half_offset: int) -> None:
        """The half message named by an op message has been reached."""
        op_offset = self._resolved.pop(half_offset)
        self._unmet[op_offset] -= 1
        if self._unmet[op_offset] <= 0:
            self._done.append(op_offset)
