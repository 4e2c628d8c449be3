"""DirectSends: the short way of nearly all sends. A message without anything special, to a topic whose queues and broker connections are known, is written
out and on its way before the caller waits; only a future stands between the two.

    begin ─► Flight ─► (the caller waits for flight.answer) ─► result
      └ None: the ordinary way (Sender), for the first message to a topic, large bodies, batches, replies, transactions, a broker that does not read

What fails here goes on the ordinary way too, as its second try.
"""

import asyncio
import time
from asyncio import Future
from json.encoder import encode_basestring as quote
from typing import Final, NamedTuple

from headrace.client.cluster.answer_scan import SendAnswer
from headrace.client.cluster.client_connection import ClientConnection
from headrace.client.cluster.instance import ClientInstance
from headrace.client.cluster.unique_ids import create_unique_id
from headrace.client.durations import seconds
from headrace.client.producing.message_check import check_topic, property_text
from headrace.client.producing.producer_settings import ProducerSettings
from headrace.client.producing.queue_choice import QueueTurn
from headrace.client.producing.send_frame import HEADER_END, SendFrames
from headrace.client.producing.send_result import DEFAULT_REGION, SendResult, SendStatus, stored_result
from headrace.model import names
from headrace.model import properties as property_names
from headrace.model.message import Message
from headrace.model.message_queue import MessageQueue
from headrace.protocol.frame_layout import HEAD_SIZE
from headrace.protocol.remoting_command import RemotingCommand, next_opaque

_SPECIAL: Final = frozenset({
    property_names.WAIT, property_names.UNIQ_KEY, property_names.MSG_TYPE, property_names.TRANSACTION_PREPARED,
})  # fmt: skip
"""Properties that have a say in how a message is sent."""
_WAIT_AND_KEY: Final = f"{property_names.WAIT}\\u0001true\\u0002{property_names.UNIQ_KEY}\\u0001"
_MAX_TEXTS: Final = 1024  # limit: property texts that are kept, for messages with tags only


class Flight(NamedTuple):
    """A send under way."""

    answer: "Future[SendAnswer | RemotingCommand]"
    opaque: int
    queue: MessageQueue
    unique_id: str
    connection: ClientConnection
    began: float
    """The loop's time, seconds."""


class _Lane:
    """The way to one queue."""

    __slots__ = ("broker", "connection", "end", "queue", "start")

    def __init__(self, queue: MessageQueue, start: str, end: str) -> None:
        self.queue = queue
        self.start = start
        self.end = end
        self.broker: dict[int, str] | None = None
        self.connection: ClientConnection | None = None


class DirectSends:
    """For one Sender, without hooks, stamps, namespace, VIP channel, latency faults."""

    def __init__(
        self, instance: ClientInstance, settings: ProducerSettings, frames: SendFrames, turns: dict[str, QueueTurn]
    ) -> None:
        """`turns`: the Sender's own; a topic is in it once a message went the ordinary way."""
        self._instance = instance
        self._now_s = asyncio.get_running_loop().time
        self._frames = frames
        self._turns = turns
        self._largest = min(settings.compress_over - 1, settings.max_message_size)
        budget_s = seconds(settings.send_timeout)
        self.timeout_s = (
            budget_s if settings.attempt_timeout is None else min(budget_s, seconds(settings.attempt_timeout))
        )
        self._lanes: dict[QueueTurn, list[_Lane]] = {}
        self._texts: dict[str, str] = {}

    def begin(self, message: Message) -> Flight | None:
        """Sends the message, if it can go this way. Raises StateError once the instance is closed, and in a forked child."""
        instance = self._instance
        instance.check_usable()
        topic = message.topic
        turn = self._turns.get(topic)
        if turn is None or turn.route is not instance.routes.cached(topic):
            return None
        body = message.body
        if not 0 < len(body) <= self._largest:
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
        connection = lane.connection
        if connection is None or broker is not lane.broker or not connection.may_ask:
            connection = self._connect(lane, broker)
            if connection is None:
                return None
        now_ms = time.time_ns() // 1_000_000
        unique_id = create_unique_id(now_ms)
        opaque = next_opaque()
        try:
            header = (
                f'{lane.start}0","g":"{now_ms}","h":"{message.flag}","i":"{text}{unique_id}","j":"0{lane.end}{opaque}{HEADER_END}'
            ).encode()
        except UnicodeEncodeError:
            return None
        head = (HEAD_SIZE - 4 + len(header) + len(body) << 32 | len(header)).to_bytes(HEAD_SIZE, "big") + header
        answer = connection.ask(opaque, head, body, self.timeout_s)
        return Flight(answer, opaque, queue, unique_id, connection, self._now_s())

    def result(self, flight: Flight, answer: SendAnswer) -> SendResult:
        """Where it was stored."""
        fields = answer.extFields
        queue = flight.queue
        if fields.queueId != queue.queue_id:
            queue = MessageQueue(queue.topic, queue.broker_name, fields.queueId)
        return stored_result(
            SendStatus.SEND_OK,
            flight.unique_id,
            fields.msgId,
            queue,
            fields.queueOffset,
            fields.transactionId,
            fields.MSG_REGION or DEFAULT_REGION,
            fields.TRACE_ON != "false",
        )

    def _property_text(self, properties: dict[str, str]) -> str | None:
        """The properties as they stand in the JSON header, up to the unique id; None for those that need the ordinary way."""
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
        lanes = self._lanes[turn] = [_Lane(queue, *self._frames.ends_of(topic, queue)) for queue in turn.queues]
        return lanes

    def _connect(self, lane: _Lane, broker: dict[int, str] | None) -> ClientConnection | None:
        address = None if broker is None else broker.get(names.MASTER_ID)
        lane.connection = None if address is None else self._instance.standing_connection(address)
        lane.broker = broker
        if lane.connection is None or not lane.connection.may_ask:
            return None
        return lane.connection
