"""PlainSends: the first attempt of a message with nothing special about it, which is nearly every message.

The frame is written to an open connection before the caller waits, and only a future stands between the caller and the broker's answer. `Sender`
prepares all other messages (large bodies, batches, replies, transactions) and makes all retries.
"""

import asyncio
import logging
import time
from json.encoder import encode_basestring as quote
from typing import Final, NamedTuple

from headrace.client.cluster.answer_scan import SendAnswer
from headrace.client.cluster.instance import ClientInstance
from headrace.client.cluster.send_pipeline import SendPipeline
from headrace.client.cluster.unique_ids import create_unique_id
from headrace.client.durations import seconds
from headrace.client.sending.message_check import check_topic, property_text
from headrace.client.sending.producer_settings import ProducerSettings
from headrace.client.sending.queue_choice import QueueTurn
from headrace.client.sending.send_header import SendHeaders, frame_head
from headrace.client.sending.send_result import DEFAULT_REGION, SendResult, SendStatus, stored_result
from headrace.errors import RemotingError, RequestTimeout
from headrace.model import names
from headrace.model import properties as property_names
from headrace.model.message import Message
from headrace.model.message_queue import MessageQueue
from headrace.protocol.remoting_command import RemotingCommand, next_opaque

_SPECIAL: Final = frozenset({
    property_names.WAIT, property_names.UNIQ_KEY, property_names.MSG_TYPE, property_names.TRANSACTION_PREPARED,
})  # fmt: skip
"""Properties that change how a message is sent."""
_WAIT_AND_KEY: Final = f"{property_names.WAIT}\\u0001true\\u0002{property_names.UNIQ_KEY}\\u0001"
_MAX_TEXTS: Final = 1024  # limit: cached property texts of messages that have tags only


class Attempt(NamedTuple):
    """An attempt that is waiting for the broker's answer."""

    answer: "asyncio.Future[SendAnswer | RemotingCommand]"
    opaque: int
    queue: MessageQueue
    unique_id: str
    pipeline: SendPipeline
    started_s: float
    """The loop's time."""
    timeout_s: float

    def result(self, answer: SendAnswer) -> SendResult:
        """Returns the result that a successful answer describes."""
        fields = answer.extFields
        queue = self.queue
        if fields.queueId != queue.queue_id:
            queue = MessageQueue(queue.topic, queue.broker_name, fields.queueId)
        return stored_result(
            SendStatus.SEND_OK,
            self.unique_id,
            fields.msgId,
            queue,
            fields.queueOffset,
            fields.transactionId,
            fields.MSG_REGION or DEFAULT_REGION,
            fields.TRACE_ON != "false",
        )

    def abandon(self, error: RemotingError | None = None) -> None:
        """Stops waiting for the answer. Closes the connection after a timeout during which the broker sent nothing at all."""
        self.pipeline.forget(self.opaque)
        if isinstance(error, RequestTimeout) and self.pipeline.connection.silent_since(self.started_s):
            reason = f"no data received within {self.timeout_s:g} s of a send"
            self.pipeline.connection.close(reason, logging.WARNING)


class _Lane:
    """One queue: the start of its headers, and the connection to its broker."""

    __slots__ = ("broker", "pipeline", "queue", "start")

    def __init__(self, queue: MessageQueue, start: str) -> None:
        self.queue = queue
        self.start = start
        self.broker: dict[int, str] | None = None
        self.pipeline: SendPipeline | None = None


class PlainSends:
    """Plain sends of one Sender that has no hooks, stamps, namespace, VIP channel or latency fault tolerance."""

    def __init__(
        self, instance: ClientInstance, settings: ProducerSettings, headers: SendHeaders, turns: dict[str, QueueTurn]
    ) -> None:
        """`turns` is the Sender's own; it contains a topic once its route is known."""
        self._instance = instance
        self._now_s = asyncio.get_running_loop().time
        self._headers = headers
        self._turns = turns
        self._max_body = min(settings.compress_over - 1, settings.max_message_size)
        budget_s = seconds(settings.send_timeout)
        self._timeout_s = (
            budget_s if settings.attempt_timeout is None else min(budget_s, seconds(settings.attempt_timeout))
        )
        self._lanes: dict[QueueTurn, list[_Lane]] = {}
        self._texts: dict[str, str] = {}

    def begin(self, message: Message) -> Attempt | None:
        """Sends the message now. None if it is not plain, or its route or connection is not ready.

        Raises MessageInvalid, and StateError if the instance is closed or belongs to the parent process.
        """
        instance = self._instance
        instance.check_usable()
        topic = message.topic
        turn = self._turns.get(topic)
        if turn is None or turn.route is not instance.routes.cached(topic):
            return None
        body = message.body
        if not 0 < len(body) <= self._max_body:
            return None
        text = self._property_text(message.properties)
        if text is None:
            return None
        lanes = self._lanes.get(turn) or self._make_lanes(turn)
        if not lanes:
            return None
        lane = lanes[turn.next_index()]
        queue = lane.queue
        broker = instance.brokers.addresses.get(queue.broker_name)
        pipeline = lane.pipeline
        if pipeline is None or broker is not lane.broker or not pipeline.may_ask:
            pipeline = self._connect(lane, broker)
            if pipeline is None:
                return None
        now_ms = time.time_ns() // 1_000_000
        unique_id = create_unique_id(now_ms)
        opaque = next_opaque()
        try:
            head = frame_head(lane.start, 0, now_ms, message.flag, text + unique_id, "0", opaque, len(body))
        except UnicodeEncodeError:
            return None
        timeout_s = self._timeout_s
        answer = pipeline.ask(opaque, head, body, timeout_s)
        return Attempt(answer, opaque, queue, unique_id, pipeline, self._now_s(), timeout_s)

    def _property_text(self, properties: dict[str, str]) -> str | None:
        """Returns the properties, escaped for JSON, up to the unique id; None if they change how the message is sent."""
        if not properties:
            return _WAIT_AND_KEY
        if len(properties) == 1 and property_names.TAGS in properties:
            tags = properties[property_names.TAGS]
            text = self._texts.get(tags)
            if text is None:
                if len(self._texts) >= _MAX_TEXTS:
                    self._texts.clear()
                text = self._texts[tags] = f"{quote(property_text(properties))[1:-1]}\\u0002{_WAIT_AND_KEY}"
            return text
        if not _SPECIAL.isdisjoint(properties):
            return None
        return f"{quote(property_text(properties))[1:-1]}\\u0002{_WAIT_AND_KEY}"

    def _make_lanes(self, turn: QueueTurn) -> list[_Lane] | None:
        topic = turn.route.topic
        check_topic(topic)
        if names.is_retry_topic(topic):
            return None
        self._lanes = {known: lanes for known, lanes in self._lanes.items() if known.route.topic != topic}
        lanes = self._lanes[turn] = [_Lane(queue, self._headers.start(topic, queue)) for queue in turn.queues]
        return lanes

    def _connect(self, lane: _Lane, broker: dict[int, str] | None) -> SendPipeline | None:
        address = None if broker is None else broker.get(names.MASTER_ID)
        lane.pipeline = None if address is None else self._instance.send_pipeline(address)
        lane.broker = broker
        if lane.pipeline is None or not lane.pipeline.may_ask:
            return None
        return lane.pipeline
