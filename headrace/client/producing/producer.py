"""Producer: sends messages (client spec 2)."""

# ruff: noqa: ASYNC109 (a send divides its timeout among its attempts, so it must know it)

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from headrace.client.cluster.instance import ClientInstance
from headrace.client.cluster.lifecycle import ClientObject
from headrace.client.cluster.members import TransactionCheck
from headrace.client.durations import Duration, Moment, epoch_ms, milliseconds, seconds
from headrace.client.namespace import unwrap, wrap
from headrace.client.producing.accumulator import Accumulator
from headrace.client.producing.in_flight import NO_LIMIT, InFlight
from headrace.client.producing.request_reply import request_of
from headrace.client.sending.batches import (
    BatchEntry,
    batch_of,
    batch_problem,
    prepare_batch,
    prepare_entry,
    split_batches,
)
from headrace.client.sending.prepared_message import prepare
from headrace.client.sending.producer_settings import ProducerOptions, ProducerSettings
from headrace.client.sending.queue_choice import Destination, QueueSelector, by_hash
from headrace.client.sending.send_hooks import Observation, SendHook, observers_among
from headrace.client.sending.send_result import SendResult
from headrace.client.sending.sender import Sender
from headrace.client.settings import ConfigLike, Trace, check_group
from headrace.client.tracing.trace import TraceDispatcher, TraceHook
from headrace.errors import HeadraceError, MessageInvalid, ReplyTimeout
from headrace.model import names
from headrace.model import properties as property_names
from headrace.model.message import Message, MessageExt
from headrace.model.message_queue import MessageQueue


class Producer(ClientObject):
    """Sends messages.

        async with Producer("orders", "127.0.0.1:9876") as producer:
            result = await producer.send(Message("Orders", b"one", tags="paid", keys="order-1"))
            print(result.message_id, result.queue, result.queue_offset)

    `group` names the producers that do the same work. `config` is a ClientConfig, the addresses of the name servers, or None, which reads the
    environment. The other keywords are ProducerSettings. Many sends may run at once: `asyncio.gather`, tasks, or `linger`; beyond `max_in_flight` they
    wait. A producer belongs to the loop in which it was started; `headrace.sync.Producer` may be used from any thread.
    """

    def __init__(self, group: str, config: ConfigLike = None, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(config)
        check_group(group, names.DEFAULT_PRODUCER_GROUP)
        self._settings = ProducerSettings(**options)
        self._group = wrap(self._config.namespace, group)
        self._namespace = self._config.namespace
        self._hooks: list[SendHook] = list(self._settings.hooks)
        self._observers = observers_among(self._hooks)
        self._sending: Sender | None = None
        self._plain: Sender | None = None
        """The same, if messages are not gathered: most of them need no preparation."""
        self._accumulator: Accumulator | None = None
        self._tracing: TraceDispatcher | None = None
        self._registered_with_repliers: set[str] = set()
        settings = self._settings
        gathers = settings.linger is not None
        self._in_flight = InFlight(NO_LIMIT if gathers else settings.max_in_flight, settings.max_in_flight_bytes)
        self._batches_in_flight = InFlight(settings.max_in_flight, NO_LIMIT)
        self._under_way = 0
        self._idle = asyncio.Event()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._group}>"

    @property
    def group(self) -> str:
        """The producer group, with the namespace."""
        return self._group

    @property
    def settings(self) -> ProducerSettings:
        """The settings that the producer was created with."""
        return self._settings

    # -- sending ----------------------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: Any = None,
        selector: QueueSelector | None = None,
        key: Any = None,
        delay: Duration | None = None,
        deliver_at: Moment | None = None,
        timeout: Duration | None = None,
    ) -> SendResult:
        """Sends a message and returns when a broker has stored it.

        By default messages go to the topic's queues in turn, and a failed attempt is repeated at another broker. With `sharding_key`, messages with the
        same key go to the same queue and keep their order. `selector(queues, message, key)` chooses the queue itself; `queue` names it. These three
        get one attempt. `delay` (seconds, timedelta) or `deliver_at` (aware datetime, or ms since 1970) delivers the message later, at brokers that
        support any delay; with RocketMQ 4 brokers use the message's `delay_level`. `timeout` replaces `send_timeout`.

        Raises SendFailed when all attempts failed, MessageInvalid, RouteNotFound, NoNameServer, StateError, BrokerError for an answer that another
        attempt would not change, and RemotingError if no name server returns the topic's route in time.
        """
        size = len(message.body)
        in_flight = self._in_flight
        if not in_flight.try_enter(size):
            await in_flight.enter(size)
        try:
            is_free = queue is None and sharding_key is None and selector is None
            plain = self._plain
            if plain is not None and is_free and delay is None and deliver_at is None and timeout is None:
                attempt = plain.begin(message)
                if attempt is not None:
                    self._under_way += 1
                    try:
                        return await plain.finish(message, attempt)
                    finally:
                        self._end_send()
            sender = self._begin_send()
            try:
                if delay is not None or deliver_at is not None:
                    message = _delayed(message, delay, deliver_at)
                if self._accumulator is not None and is_free and self._may_be_gathered(message):
                    return await self._gather(self._accumulator, message)
                return await self._send(sender, message, Destination(queue, sharding_key, selector, key), timeout)
            finally:
                self._end_send()
        finally:
            in_flight.leave(size)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        sharding_key: Any = None,
        selector: QueueSelector | None = None,
        key: Any = None,
    ) -> None:
        """Sends a message and does not wait for an answer: there is no confirmation that it was stored.

        Raises MessageInvalid, RouteNotFound, NoNameServer, BrokerNotFound, ConnectError, StateError.
        """
        size = len(message.body)
        await self._in_flight.enter(size)
        try:
            sender = self._begin_send()
            try:
                with self._observe((message,), is_oneway=True) as sending:
                    prepared = await prepare(sending.messages[0], self._settings, self._namespace)
                    destination = Destination(queue, sharding_key, selector, key)
                    await sender.send_oneway(prepared, await self._choose(sender, prepared.topic, message, destination))
            finally:
                self._end_send()
        finally:
            self._in_flight.leave(size)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: Duration | None = None
    ) -> SendResult:
        """Sends messages of one topic in one request to one queue, where they are stored one after another. All of them are stored, or none.

        Bodies are not compressed; delayed messages are not allowed. Raises as `send`, and MessageInvalid if the batch is too large (`send_batches`).
        """
        size = sum(len(message.body) for message in messages)
        await self._in_flight.enter(size)
        try:
            sender = self._begin_send()
            try:
                with self._observe(messages) as sending:
                    prepared = prepare_batch(sending.messages, self._settings, self._namespace)
                    result = await sender.send(prepared, self._wrapped(queue), self._timeout_ms(timeout))
                    sending.result = result
                    return result
            finally:
                self._end_send()
        finally:
            self._in_flight.leave(size)

    async def send_batches(
        self, messages: Iterable[Message], *, max_bytes: int | None = None, timeout: Duration | None = None
    ) -> list[SendResult]:
        """Sends any number of messages, in their order, in as many batches as needed; returns the results of the batches.

        Stops at the first batch that fails and raises its error. The batches before it are stored.
        """
        results = []
        limit = min(max_bytes or 1024 * 1024, self._settings.max_message_size)
        for batch in split_batches(messages, limit):
            if len(batch) == 1:
                results.append(await self.send(batch[0], timeout=timeout))
            else:
                results.append(await self.send_batch(batch, timeout=timeout))
        return results

    async def request(
        self,
        message: Message,
        timeout: Duration | None = None,
        *,
        queue: MessageQueue | None = None,
        sharding_key: Any = None,
        selector: QueueSelector | None = None,
        key: Any = None,
    ) -> MessageExt:
        """Sends a message and waits for the reply of the program that consumes it, which sends `reply_to(message, body)`.

        `timeout` (default: `send_timeout`) covers sending and waiting. Raises ReplyTimeout if no reply arrives, and as `send`.
        """
        sender = self._begin_send()
        instance = self._instance
        budget_ms = self._timeout_ms(timeout)
        correlation_id, asking = request_of(message, instance.client_id, budget_ms)
        reply = instance.replies.expect(correlation_id)
        try:
            async with asyncio.timeout(budget_ms / 1000) as deadline:
                await self._register_with_repliers(instance, sender, wrap(self._namespace, message.topic))
                left = max(0.001, (deadline.when() or 0) - asyncio.get_running_loop().time())
                size = len(asking.body)
                await self._in_flight.enter(size)
                try:
                    await self._send(sender, asking, Destination(queue, sharding_key, selector, key), left)
                finally:
                    self._in_flight.leave(size)
                answer = await reply
        except TimeoutError as error:
            if isinstance(error, HeadraceError):
                raise
            text = f"no reply to the message to {message.topic} within {budget_ms} ms"
            raise ReplyTimeout(text, timeout=budget_ms / 1000) from error
        finally:
            instance.replies.forget(correlation_id)
            self._end_send()
        answer.topic = unwrap(self._namespace, answer.topic)
        return answer

    async def flush(self) -> None:
        """Sends the messages gathered so far (`linger`), and waits until each is stored or has failed."""
        if self._accumulator is not None:
            await self._accumulator.flush()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that messages to a topic may go to, in order. Raises RouteNotFound, RemotingError, NoNameServer, StateError."""
        turn = await self._sender.turn(wrap(self._namespace, topic))
        return [self._unwrapped(queue) for queue in turn.queues]

    # -- called by the instance (members.ProducerMember) ------------------------------------------------------------------

    def publish_topics(self) -> list[str]:
        """The topics that messages were sent to."""
        return [] if self._sending is None else list(self._sending.topics)

    def check_transaction(self, check: TransactionCheck) -> None:
        """Does nothing: only a TransactionProducer can answer. The broker repeats the check, perhaps with another member."""

    # -- start and close --------------------------------------------------------------------------------------------------

    async def _begin(self, instance: ClientInstance) -> None:
        instance.register_producer(self)
        trace = Trace.of(self._settings.trace)
        if trace is not None:
            self._tracing = TraceDispatcher(instance, trace, self._group, "PRODUCE")
            self._tracing.start()
            self._hooks.append(TraceHook(self._tracing))
        self._sending = Sender(instance, self._group, self._settings, self._hooks)
        if self._settings.linger is not None:
            self._accumulator = Accumulator(
                seconds(self._settings.linger), self._settings.batch_size, self._send_gathered, instance.start_task
            )
        else:
            self._plain = self._sending
        # Not awaited: name servers and brokers need not be up yet.
        instance.start_task(self._introduce(instance), "introduction")

    async def _introduce(self, instance: ClientInstance) -> None:
        await instance.routes.poll([self._settings.create_topic_template])
        await instance.send_heartbeat()

    async def _end(self, instance: ClientInstance) -> None:
        self._plain = None
        await self.flush()
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()
        await instance.unregister_producer(self._group)
        if self._tracing is not None:
            await self._tracing.close()

    # -- internals --------------------------------------------------------------------------------------------------------

    @property
    def _sender(self) -> Sender:
        if self._sending is None or self._opened is None or self._state != "running":
            raise self._not_running()
        self._opened.check_usable()
        return self._sending

    def _begin_send(self) -> Sender:
        sender = self._sender
        self._under_way += 1
        return sender

    def _end_send(self) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()

    async def _send(
        self, sender: Sender, message: Message, destination: Destination, timeout: Duration | None
    ) -> SendResult:
        with self._observe((message,)) as sending:
            prepared = await prepare(sending.messages[0], self._settings, self._namespace)
            # Perhaps a hundred thousand sends were started in this turn of the loop: the timeout of this one begins after them.
            await asyncio.sleep(0)
            queue = await self._choose(sender, prepared.topic, message, destination)
            result = sending.result = await sender.send(prepared, queue, self._timeout_ms(timeout))
            return result

    async def _choose(
        self, sender: Sender, topic: str, message: Message, destination: Destination
    ) -> MessageQueue | None:
        queue, sharding_key, selector, key = destination
        if queue is not None or (selector is None and sharding_key is None):
            return self._wrapped(queue)
        turn = await sender.turn(topic)
        if selector is None:
            return by_hash(turn.queues, message, sharding_key)
        chosen = selector([self._unwrapped(one) for one in turn.queues], message, key)
        if not isinstance(chosen, MessageQueue):
            raise MessageInvalid(f"the selector returned {chosen!r}; it must return one of the queues it was given")
        return self._wrapped(chosen)

    def _observe(self, messages: Sequence[Message], *, is_oneway: bool = False) -> Observation:
        return Observation(self._observers, self._group, messages, is_oneway=is_oneway)

    async def _gather(self, accumulator: Accumulator, message: Message) -> SendResult:
        # order: the message is checked before it joins the batch, so that an invalid one does not fail the batch of others.
        if not self._observers:
            return await accumulator.send(prepare_entry(message, self._settings, self._namespace))
        with self._observe((message,)) as sending:
            entry = prepare_entry(sending.messages[0], self._settings, self._namespace)
            result = sending.result = await accumulator.send(entry)
            return result

    async def _send_gathered(self, entries: list[BatchEntry]) -> SendResult:
        assert self._sending is not None
        await self._batches_in_flight.enter(0)
        try:
            return await self._sending.send(batch_of(entries, self._settings, self._namespace))
        finally:
            self._batches_in_flight.leave(0)

    async def _register_with_repliers(self, instance: ClientInstance, sender: Sender, topic: str) -> None:
        """Sends a heartbeat to every broker that may receive the reply: brokers deliver replies only to clients that they know."""
        if topic in self._registered_with_repliers:
            return
        turn = await sender.turn(topic)
        clusters = {broker.cluster for broker in turn.route.data.broker_datas if broker.cluster}
        await instance.routes.poll(names.reply_topic(cluster) for cluster in clusters)
        await instance.send_heartbeat()
        self._registered_with_repliers.add(topic)

    def _may_be_gathered(self, message: Message) -> bool:
        if batch_problem(message, message) is not None or property_names.MSG_TYPE in message.properties:
            return False
        return not names.is_retry_topic(message.topic)

    def _timeout_ms(self, timeout: Duration | None) -> int:
        return milliseconds(self._settings.send_timeout if timeout is None else timeout)

    def _wrapped(self, queue: MessageQueue | None) -> MessageQueue | None:
        if queue is None or not self._namespace:
            return queue
        return MessageQueue(wrap(self._namespace, queue.topic), queue.broker_name, queue.queue_id)

    def _unwrapped(self, queue: MessageQueue) -> MessageQueue:
        if not self._namespace:
            return queue
        return MessageQueue(unwrap(self._namespace, queue.topic), queue.broker_name, queue.queue_id)


def _delayed(message: Message, delay: Duration | None, deliver_at: Moment | None) -> Message:
    if delay is not None and deliver_at is not None:
        raise MessageInvalid("both delay and deliver_at were passed; pass only one of them")
    later = Message(message.topic, message.body, flag=message.flag, properties=message.properties)
    if delay is not None:
        later.properties[property_names.TIMER_DELAY_MS] = str(milliseconds(delay))
    elif deliver_at is not None:
        later.properties[property_names.TIMER_DELIVER_MS] = str(epoch_ms(deliver_at))
    return later
