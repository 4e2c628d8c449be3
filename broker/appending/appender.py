"""Appender: appends messages to the CommitLog for everything but the hot path: checks, appends, publishes, waits at the ack gate.

The only user of the log writer, shared with the hot path (`broker.sending.hot_send`) on the same loop, so two appends never overlap.
A message is refused by a status, never by an exception (store spec, 2.8).
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from isal import isal_zlib

from broker.appending.ack_gate import AckGate
from broker.statistics.store_stats import StoreStats
from headrace.model import sys_flag
from headrace.model.host import encode_host
from headrace.model.message_id import encode_offset_message_id
from headrace.protocol.record_layout import HOSTLESS_SIZE, MAX_PROPERTIES_LENGTH, MAX_TOPIC_LENGTH
from store.commit_log.append import CommitLogAppender, TopicQueues
from store.commit_log.message import MessageToStore, PutResult
from store.config import StoreConfig
from store.status import PutMessageStatus

logger = logging.getLogger(__name__)

FILE_WAIT_S = 5.0
"""How long a put waits for the housekeeper to reserve the next CommitLog file, as in RocketMQ."""

Appended = Callable[[MessageToStore, PutResult], object]
"""Called with a stored message, or the first of a batch, and its location."""


class BatchWriter(Protocol):
    """Writes the messages of a batch that it has checked and counted (`broker.sending.hot_send.SendPath`)."""

    @property
    def stored_bytes(self) -> int:
        """The size of the records that the last `put_batch` wrote."""

    def put_batch(
        self,
        topic: bytes,
        queue_id: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
        properties: bytes,
        body: bytes,
        /,
    ) -> int:
        """Writes the records, contiguous in one file. Negative: the next file is not reserved. 0: the batch is too large."""

    def message_ids(self) -> str:
        """The ids of these messages, separated by commas."""


class Appender:
    """Appends on behalf of the broker's processors.

    `why_closed()`: why the store accepts no messages, empty if it does; `ring()` wakes the roles that follow the log;
    `on_wait()` is called when a put begins to wait for a file. Appended messages are counted in `stats`.
    """

    def __init__(
        self,
        log: CommitLogAppender,
        gate: AckGate,
        config: StoreConfig,
        why_closed: Callable[[], str],
        ring: Callable[[], None],
        on_wait: Callable[[], object] = lambda: None,
        stats: StoreStats | None = None,
    ) -> None:
        self.log = log
        self.stats = stats or StoreStats()
        self.gate = gate
        self._config = config
        self.why_closed = why_closed
        self.ring = ring
        self._on_wait = on_wait
        self.waiting_for_file: deque[asyncio.Future[None]] = deque()
        """Puts that wait for the next file; `file_reserved` lets them try again."""
        self._listeners: dict[str, Appended] = {}

    def on_append(self, topic: str, listener: Appended) -> None:
        """Calls `listener` for each message stored in this topic, to which clients cannot send, once it is published."""
        self._listeners[topic] = listener

    def publish(self) -> None:
        """Publishes appended messages and wakes the roles that follow the log; once per batch. Raises OSError if they cannot be written."""
        if self.log.publish():
            self.ring()

    def append(self, message: MessageToStore) -> PutResult | None:
        """Appends and publishes one message; None while the next CommitLog file is not reserved."""
        began_ns = time.monotonic_ns()
        result = self._append(message)
        if result is not None:
            self.stats.puts.add(began_ns)
        return result

    def _append(self, message: MessageToStore) -> PutResult | None:
        refusal = self._refusal(message)
        if refusal is not None:
            return PutResult(refusal)
        log = self.log
        record = _Encoded(message)
        if record.size_bytes > log.largest_record:
            return PutResult(PutMessageStatus.MESSAGE_ILLEGAL)
        if not log.ensure(record.size_bytes):
            return None
        log.begin(time.time_ns() // 1_000_000)
        queues: TopicQueues = log.queues_of(message.topic.encode())
        queue_offset = queues.next_offset(message.queue_id) if record.is_queued else 0
        offset = log.append(
            queues,
            message.queue_id,
            message.flag,
            record.flags,
            message.born_timestamp,
            record.born_host,
            record.store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
            message.body,
            isal_zlib.crc32(message.body) & 0x7FFFFFFF if message.body else 0,
            message.properties,
            record.is_queued,
        )
        ids = encode_offset_message_id(message.store_host, offset)
        return self._appended(message, 1, record.size_bytes, queue_offset, ids)

    def append_batch(self, path: BatchWriter, message: MessageToStore, count: int) -> PutResult | None:
        """Appends and publishes the `count` messages of a batch, contiguous in one file with consecutive queue offsets.

        `message` has their common fields; its body is the batch's, whose messages `path` has counted. None while the next CommitLog
        file is not reserved. Appends all of them or none.
        """
        refusal = self._refusal(message)
        if refusal is not None:
            return PutResult(refusal)
        log, topic = self.log, message.topic.encode()
        log.begin(time.time_ns() // 1_000_000)
        queue_offset = log.queues_of(topic).next_offset(message.queue_id)
        put = path.put_batch(
            topic,
            message.queue_id,
            message.sys_flag,
            message.born_timestamp,
            encode_host(message.born_host),
            message.reconsume_times,
            message.properties,
            message.body,
        )
        if put < 0:
            return None
        if put == 0:
            return PutResult(PutMessageStatus.MESSAGE_ILLEGAL)
        return self._appended(message, count, path.stored_bytes, queue_offset, path.message_ids())

    def _appended(
        self, message: MessageToStore, count: int, size_bytes: int, queue_offset: int, message_ids: str
    ) -> PutResult:
        """Publishes the current end of the log."""
        log = self.log
        result = PutResult(
            PutMessageStatus.PUT_OK,
            physical_offset=log.wrote_offset - size_bytes,
            size_bytes=size_bytes,
            queue_offset=queue_offset,
            store_timestamp=log.store_timestamp,
            message_ids=message_ids,
        )
        try:
            self.publish()
        except OSError:  # the log writer has logged it
            return PutResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
        self.stats.stored(count, size_bytes)
        listener = self._listeners.get(message.topic)
        if listener is not None:
            listener(message, result)
        return result

    async def put(self, message: MessageToStore) -> PutResult:
        """Appends one message and waits until it is as safe as the settings require, unless its `wait_store` is False.

        It waits for the next file (5 s at most) and at the ack gate.
        """
        result = self.start_put(message)
        return result if isinstance(result, PutResult) else await result

    def start_put(self, message: MessageToStore) -> PutResult | Awaitable[PutResult]:
        """The same, but appends before it returns if possible, and returns an awaitable only if it must wait.

        So messages of one read of a connection keep their order, whichever path appends them.
        """
        return self._start(partial(self._append, message), message, 1)

    def start_put_batch(
        self, path: BatchWriter, message: MessageToStore, count: int
    ) -> PutResult | Awaitable[PutResult]:
        """The same of a batch (`append_batch`)."""
        return self._start(partial(self.append_batch, path, message, count), message, count)

    def _start(
        self, append: Callable[[], PutResult | None], message: MessageToStore, count: int
    ) -> PutResult | Awaitable[PutResult]:
        began_ns = time.monotonic_ns()
        result = append()
        if result is None:
            return self._append_later(append, message, count, began_ns)
        return self.pass_gate(message, result, began_ns, count)

    async def _append_later(
        self, append: Callable[[], PutResult | None], message: MessageToStore, count: int, began_ns: int
    ) -> PutResult:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FILE_WAIT_S
        while (left := deadline - loop.time()) > 0:
            reserved: asyncio.Future[None] = loop.create_future()
            self.waiting_for_file.append(reserved)
            self._on_wait()
            # The broker is rung when a file is reserved; the timeout covers only a restart of the housekeeper.
            await asyncio.wait((reserved,), timeout=min(left, 0.1))
            result = append()
            if result is not None:
                passed = self.pass_gate(message, result, began_ns, count)
                return passed if isinstance(passed, PutResult) else await passed
        logger.warning("message refused error=%r", f"no CommitLog file was allocated within {FILE_WAIT_S:g} s")
        return PutResult(PutMessageStatus.CREATE_MAPEDFILE_FAILED)

    def file_reserved(self) -> None:
        """Retries puts that wait for a file."""
        while self.waiting_for_file:
            reserved = self.waiting_for_file.popleft()
            if not reserved.done():
                reserved.set_result(None)

    def pass_gate(
        self, message: MessageToStore, result: PutResult, began_ns: int | None = None, count: int = 1
    ) -> PutResult | Awaitable[PutResult]:
        """The result of an append: at once, or when the log is as safe as required.

        With `began_ns`, the monotonic time at which the put began, its latency is recorded.
        """
        if result.status is not PutMessageStatus.PUT_OK or not message.wait_store or self.gate.is_open:
            self._took(began_ns, count)
            return result
        outcome: asyncio.Future[PutResult] = asyncio.get_running_loop().create_future()

        def answer(status: PutMessageStatus) -> None:
            result.status = status
            self._took(began_ns, count)
            if not outcome.done():  # the connection, and with it the request, may have ended
                outcome.set_result(result)

        # order: at the gate directly after the append, because responses there are in log order.
        self.gate.wait(result.end_offset, answer)
        return result if outcome.done() else outcome

    def _took(self, began_ns: int | None, times: int) -> None:
        if began_ns is not None:
            self.stats.puts.add(began_ns, times)

    def _refusal(self, message: MessageToStore) -> PutMessageStatus | None:
        if self.why_closed():
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        if len(message.body) > self._config.effective_max_message_size:
            return PutMessageStatus.MESSAGE_ILLEGAL
        if len(message.topic.encode()) > MAX_TOPIC_LENGTH:
            return PutMessageStatus.MESSAGE_ILLEGAL
        if len(message.properties) > MAX_PROPERTIES_LENGTH:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        return None


class _Encoded:
    """The parts of a record that follow from a message."""

    __slots__ = ("born_host", "flags", "is_queued", "size_bytes", "store_host")

    def __init__(self, message: MessageToStore) -> None:
        self.born_host = encode_host(message.born_host)
        self.store_host = encode_host(message.store_host)
        flags = message.sys_flag & ~(sys_flag.BORN_HOST_V6 | sys_flag.STORE_HOST_V6)
        if len(self.born_host) > 8:
            flags |= sys_flag.BORN_HOST_V6
        if len(self.store_host) > 8:
            flags |= sys_flag.STORE_HOST_V6
        self.flags = flags
        self.is_queued = sys_flag.is_queued(flags)
        self.size_bytes = (
            HOSTLESS_SIZE
            + len(self.born_host)
            + len(self.store_host)
            + len(message.body)
            + len(message.topic.encode())
            + len(message.properties)
        )
