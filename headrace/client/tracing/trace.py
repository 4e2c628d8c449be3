"""Message trace: records collected and sent to the trace topic in the background (client spec 2.15).

    dispatcher = TraceDispatcher(instance, Trace(), group, "PRODUCE")
    dispatcher.start()
    hooks = [TraceHook(dispatcher), …]          # or dispatcher.append(record), from a consumer
    await dispatcher.close()

Tracing never delays the traced messages: records wait in a bounded queue. Those that do not fit are dropped and counted; those that cannot be sent are lost.
"""

import asyncio
import itertools
import logging
from collections import deque
from typing import Final

from headrace.client.cluster.instance import ClientInstance
from headrace.client.durations import now_ms
from headrace.client.namespace import unwrap_any
from headrace.client.sending.prepared_message import prepare
from headrace.client.sending.producer_settings import ProducerSettings
from headrace.client.sending.send_hooks import EndTransactionContext, EndTransactionHook, SendContext
from headrace.client.sending.send_result import DEFAULT_REGION
from headrace.client.sending.sender import Sender
from headrace.client.settings import Trace
from headrace.client.tracing.trace_records import TraceRecord, end_transaction_record, publish_record
from headrace.errors import HeadraceError
from headrace.model import properties as property_names
from headrace.model.message import Message

logger = logging.getLogger(__name__)

QUEUE_LIMIT: Final = 1024
MAX_CHARACTERS: Final = 118_000
"""A trace message is sent at this size, which stays below the 128,000 bytes that it may have."""
MAX_SIZE: Final = 128_000
LINGER_S: Final = 0.5
SEND_TIMEOUT_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 1.0

_numbers: Final = itertools.count()


class TraceDispatcher:
    """Sends trace records of one producer or consumer in the background."""

    def __init__(self, instance: ClientInstance, trace: Trace, group: str, kind: str) -> None:
        """`kind`: PRODUCE or CONSUME, a part of the name of the group that sends the records."""
        self.trace = trace
        self.dropped = 0
        self._instance = instance
        self._settings = ProducerSettings(send_timeout=SEND_TIMEOUT_S, max_message_size=MAX_SIZE)
        name = f"_INNER_TRACE_PRODUCER-{group}-{kind}-{next(_numbers)}"
        self._sender = Sender(instance, name, self._settings)
        self._records: deque[TraceRecord] = deque()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    def start(self) -> None:
        """Starts sending."""
        self._task = self._instance.start_task(self._run(), "trace")

    def append(self, record: TraceRecord) -> None:
        """Queues a record; drops it if the queue is full."""
        if len(self._records) >= QUEUE_LIMIT:
            self.dropped += 1
            return
        self._records.append(record)
        self._wanted.set()

    async def close(self) -> None:
        """Sends the queued records, for at most a second, and stops."""
        self._is_closing = True
        self._wanted.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_TIMEOUT_S)
            self._task.cancel()
        if self.dropped:
            logger.warning("trace records dropped count=%d", self.dropped)

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            if not self._is_closing:
                await asyncio.sleep(LINGER_S)
            self._wanted.clear()
            while self._records:
                await self._send(self._take())
            if self._is_closing:
                return

    def _take(self) -> list[TraceRecord]:
        taken: list[TraceRecord] = []
        size = 0
        while self._records and (not taken or size + len(self._records[0].text) <= MAX_CHARACTERS):
            taken.append(self._records.popleft())
            size += len(taken[-1].text)
        return taken

    async def _send(self, records: list[TraceRecord]) -> None:
        keys = sorted(set().union(*(record.keys for record in records)))
        message = Message(self.trace.target, "".join(record.text for record in records), keys=keys)
        try:
            await self._sender.send(await prepare(message, self._settings, None))
        except HeadraceError as error:
            logger.warning("trace not sent records=%d error=%r", len(records), str(error))


class TraceHook(EndTransactionHook):
    """Writes a record for each message sent and each transaction ended. Not for failed sends, nor for brokers that do not want traces."""

    def __init__(self, dispatcher: TraceDispatcher) -> None:
        self._dispatcher = dispatcher

    def before(self, context: SendContext) -> None:
        """Records the start time."""
        context.state["trace_start"] = now_ms()

    def after(self, context: SendContext) -> None:
        """Writes the record."""
        result = context.result
        if result is None or not result.trace_on or context.topic == self._dispatcher.trace.target:
            return
        start = context.state["trace_start"]
        offset_ids = result.offset_message_id.split(",")
        for at, (message, unique_id) in enumerate(zip(context.messages, context.unique_ids, strict=False)):
            self._dispatcher.append(
                publish_record(
                    timestamp=start,
                    region=result.region,
                    group=unwrap_any(context.group),
                    topic=unwrap_any(context.topic),
                    message_id=unique_id,
                    tags=message.tags,
                    keys=message.properties.get(property_names.KEYS),
                    broker_address=context.broker_address,
                    body_size=context.body_size,
                    cost_ms=(now_ms() - start) // len(context.messages),
                    kind=context.kind,
                    offset_message_id=offset_ids[min(at, len(offset_ids) - 1)],
                    is_success=result.ok,
                )
            )

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Writes the record of the end of a transaction."""
        self._dispatcher.append(
            end_transaction_record(
                timestamp=now_ms(),
                region=DEFAULT_REGION,
                group=unwrap_any(context.group),
                topic=unwrap_any(context.topic),
                message_id=context.message_id,
                tags=context.tags,
                keys=context.keys,
                broker_address=context.broker_address,
                transaction_id=context.transaction_id,
                state=context.state,
                is_from_check=context.is_from_check,
            )
        )
