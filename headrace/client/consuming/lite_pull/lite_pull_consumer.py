"""LitePullConsumer: the program polls for messages, and controls what counts as consumed (client spec 4.1)."""

# ruff: noqa: ASYNC109 (users of such clients expect a poll with a timeout)

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias, Unpack

from headrace.client.cluster.instance import ClientInstance
from headrace.client.consuming import queue_requests
from headrace.client.consuming.consumer import Consumer
from headrace.client.consuming.consumer_settings import LitePullOptions, LitePullSettings
from headrace.client.consuming.lite_pull.lite_pull_fetch import Fetches
from headrace.client.consuming.puller import Puller
from headrace.client.consuming.queue_pull import FlowLimits
from headrace.client.consuming.rebalance import Rebalance
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.consuming.start_offset import start_offset
from headrace.client.consuming.subscriptions import Expression, for_single_pull, subscription_of
from headrace.client.durations import Duration, Moment, epoch_ms, seconds
from headrace.client.namespace import wrap
from headrace.client.settings import ConfigLike, EventKind
from headrace.errors import ConfigError, HeadraceError, RouteNotFound, StateError
from headrace.model.consumption import ConsumeType
from headrace.model.message_queue import MessageQueue
from headrace.model.subscription import SubscriptionData

logger = logging.getLogger(__name__)

QueuesListener: TypeAlias = Callable[[list[MessageQueue]], Any]

_FIRST_TOPIC_CHECK_S: Final = 10.0


class LitePullConsumer(Consumer):
    """Fetches messages in the background and returns them when it is polled.

        consumer = LitePullConsumer("reports", "127.0.0.1:9876")
        consumer.subscribe("Orders")
        async with consumer:
            async for message in consumer:               # or: messages = await consumer.poll(1.0)
                await store(message.body)

    With `subscribe` the queues are divided among the group's members; with `assign` the program chooses them. Returned messages count as consumed at
    the next poll (`auto_commit`), or after `commit`; the others are delivered again after a crash. Failed messages are not retried: this consumer has
    no retry topic and no dead letters.

    `group` and `config` as for PushConsumer; the other keywords are LitePullSettings. `on_assigned(queues)` and `on_revoked(queues)`, functions or
    coroutines, are called when queues are assigned to this consumer or revoked.
    """

    def __init__(
        self,
        group: str,
        config: ConfigLike = None,
        *,
        on_assigned: QueuesListener | None = None,
        on_revoked: QueuesListener | None = None,
        **options: Unpack[LitePullOptions],
    ) -> None:
        self._settings = LitePullSettings(**options)
        super().__init__(group, config, self._settings.model)
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._assigned: set[MessageQueue] | None = None
        self._expressions: dict[str, SubscriptionData] = {}
        self._topic_listeners: dict[str, QueuesListener] = {}
        self._fetches: Fetches | None = None
        self._delivered: dict[MessageQueue, int] = {}
        self._passed: dict[MessageQueue, int] = {}
        self._commit_at = 0.0
        self._rebalancing: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def settings(self) -> LitePullSettings:
        """The settings that the consumer was created with."""
        return self._settings

    # -- which queues -----------------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Subscribes to a topic: its queues are divided among the group's members. Raises ConfigError; StateError after `assign`."""
        if self._assigned is not None:
            raise StateError(
                "assign() has already been called; a consumer can use subscribe() or assign(), not both",
                self._state,
            )
        self._subscriptions.put(subscription_of(wrap(self._namespace, topic), expression))
        if self._state == "running":
            self._instance.start_task(self._subscribed(), "subscription")

    def unsubscribe(self, topic: str) -> None:
        """Ends a subscription and releases its queues."""
        self._subscriptions.remove(wrap(self._namespace, topic))
        self.rebalance_soon()

    def assign(self, queues: Iterable[MessageQueue], expression: Expression = "*") -> None:
        """Fetches exactly these queues, whatever other members do. May be called again; StateError after `subscribe`.

        `expression` selects messages of their topics.
        """
        if self._subscriptions:
            raise StateError(
                "subscribe() has already been called; a consumer can use subscribe() or assign(), not both",
                self._state,
            )
        self._assigned = set(map(self._wrapped, queues))
        for topic in {queue.topic for queue in self._assigned}:
            self._expressions[topic] = subscription_of(topic, expression)
        if self._fetches is not None:
            self._queues_changed(self._assigned)

    def assignment(self) -> list[MessageQueue]:
        """Returns the queues that are fetched now, sorted."""
        return sorted(map(self._unwrapped, self._queues_held()))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Returns all readable queues of a topic. Raises RouteNotFound, RemotingError."""
        route = await self._instance.routes.update(wrap(self._namespace, topic))
        if not route.subscribe_queues:
            raise RouteNotFound(f"the topic {topic} has no readable queue", topic)
        return [self._unwrapped(queue) for queue in route.subscribe_queues]

    def on_topic_queues_changed(self, topic: str, listener: QueuesListener) -> None:
        """Calls `listener(queues)` when a topic's queues have changed; checked every `topic_check_interval`."""
        self._topic_listeners[wrap(self._namespace, topic)] = listener

    # -- messages ---------------------------------------------------------------------------------------------------------

    async def poll(self, timeout: Duration | None = None) -> list[ReceivedMessage]:
        """Returns messages of one queue, in order; an empty list if none arrive within `timeout` (default: `poll_timeout`).

        Raises StateError if the consumer is not running.
        """
        return await self._poll(None, seconds(self._settings.poll_timeout if timeout is None else timeout))

    async def getmany(self, max_messages: int, timeout: Duration | None = None) -> list[ReceivedMessage]:
        """Like `poll`, but returns at most `max_messages`, of several queues if they are already fetched."""
        found = await self._poll(max_messages, seconds(self._settings.poll_timeout if timeout is None else timeout))
        while len(found) in range(1, max_messages):
            more = self._take(max_messages - len(found))
            if not more:
                break
            found += more
        return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Returns the next message, however long it takes; the previous one counts as consumed."""
        while True:
            if not self.is_running:
                raise StopAsyncIteration
            found = await self._poll(1, 3600.0)
            if found:
                return found[0]

    async def _poll(self, limit: int | None, timeout_s: float) -> list[ReceivedMessage]:
        fetches = self._fetches
        if fetches is None or not self.is_running:
            raise self._not_running()
        if timeout_s < 0:
            raise ConfigError(f"timeout={timeout_s}: expected 0 or more", "timeout")
        self._pass()
        found = self._take(limit)
        if found or timeout_s == 0:
            return found
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while await fetches.wait(max(0.0, end - loop.time())) and self._state == "running":
            # order: no await between the wait and the take, so that a cancelled caller takes nothing with it.
            found = self._take(limit)
            if found:
                return found
        return []

    def _take(self, limit: int | None) -> list[ReceivedMessage]:
        assert self._fetches is not None
        taken = self._fetches.take(limit)
        if taken is None:
            return []
        messages, process_queue, offset = taken
        self._delivered[process_queue.queue] = offset
        return messages

    def _pass(self) -> None:
        """Counts all returned messages as consumed."""
        if self._delivered:
            self._passed.update(self._delivered)
        if self._settings.auto_commit and self._passed:
            now = asyncio.get_running_loop().time()
            if now >= self._commit_at:
                self._commit_at = now + seconds(self._settings.auto_commit_interval)
                self._commit_passed()

    def _commit_passed(self) -> None:
        assert self._store is not None
        for queue, offset in self._passed.items():
            self._store.update(queue, offset)
            if self._delivered.get(queue) == offset:
                del self._delivered[queue]
        self._passed.clear()

    # -- offsets ----------------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None, *, wait: bool = True) -> None:
        """Stores these offsets (each of the next message wanted), or the offsets after all returned messages.

        Returns when brokers have stored them; with `wait=False` they are only sent. Raises BrokerError, RemotingError.
        """
        store = self._store
        if store is None:
            raise self._not_running()
        chosen = (
            {**self._passed, **self._delivered}
            if offsets is None
            else {self._wrapped(queue): at for queue, at in offsets.items()}
        )
        for queue, offset in chosen.items():
            store.update(queue, offset)
            self._passed.pop(queue, None)
            self._delivered.pop(queue, None)
        # If nothing is new, offsets that were committed to memory only are stored.
        queues = list(chosen) if offsets is not None else self._queues_held()
        if wait:
            await store.persist(queues, wait=True)
        else:
            self._instance.start_task(store.persist(queues), "commit")

    async def committed(self, queue: MessageQueue) -> int | None:
        """Returns the offset committed last, None if there is none. Raises BrokerError, BrokerNotFound, RemotingError."""
        if self._store is None:
            raise self._not_running()
        wrapped = self._wrapped(queue)
        known = self._store.memory(wrapped)
        return await self._store.stored(wrapped) if known is None else known

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continues at another offset of a fetched queue. Raises ConfigError if it is not fetched, or the offset is out of its bounds."""
        wrapped = self._wrapped(queue)
        low = await queue_requests.min_offset(self._instance, wrapped)
        high = await queue_requests.max_offset(self._instance, wrapped)
        if not low <= offset <= high:
            raise ConfigError(f"offset {offset} is out of range for {queue}: expected {low} to {high}", "offset")
        self._seek(wrapped, offset)

    async def seek_to_beginning(self, queue: MessageQueue) -> None:
        """Continues at the first message that is still stored. Raises as `seek`."""
        wrapped = self._wrapped(queue)
        self._seek(wrapped, await queue_requests.min_offset(self._instance, wrapped))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continues at the next message to be stored. Raises as `seek`."""
        wrapped = self._wrapped(queue)
        self._seek(wrapped, await queue_requests.max_offset(self._instance, wrapped))

    def _seek(self, queue: MessageQueue, offset: int) -> None:
        fetches = self._fetches
        if fetches is None or queue not in fetches.queues:
            raise ConfigError(f"cannot seek in {queue}: it is not assigned to this consumer", "queue")
        self._delivered.pop(queue, None)
        self._passed.pop(queue, None)
        fetches.seek(queue, offset)

    async def offset_for_time(self, queue: MessageQueue, moment: Moment) -> int:
        """Returns the offset of the message stored nearest to a time: an aware datetime, or ms since 1970. Raises BrokerError, RemotingError."""
        return await queue_requests.search_offset(self._instance, self._wrapped(queue), epoch_ms(moment))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stops fetching these queues; fetched messages can still be polled."""
        if self._fetches is None:
            raise self._not_running()
        self._fetches.pause(map(self._wrapped, queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continues fetching these queues."""
        if self._fetches is None:
            raise self._not_running()
        self._fetches.resume(map(self._wrapped, queues))

    # -- life -------------------------------------------------------------------------------------------------------------

    async def _open(self) -> ClientInstance:
        return await ClientInstance.open(self._config, rename=not self._is_broadcast, stream=True)

    async def _begin(self, instance: ClientInstance) -> None:
        settings = self._settings
        store = await self._open_store(instance, settings.offset_store, settings.offsets_directory)
        self._commit_at = asyncio.get_running_loop().time() + seconds(settings.auto_commit_interval)

        async def begin(queue: MessageQueue) -> int:
            return await start_offset(instance, store, settings.start_from, queue, memory_first=True)

        limits = FlowLimits(settings.queue_threshold, settings.queue_threshold_mib, settings.max_span)
        self._fetches = Fetches(
            Puller(instance, self._group), self._subscription_for, begin, limits, settings.total_threshold,
            settings.pull_batch_size, instance.start_task,
        )  # fmt: skip
        # order: raises if the group has a member here already; nothing may be left in an instance that others share.
        instance.register_consumer(self)
        self._rebalance = Rebalance(
            instance, self._group, self.subscribed_topics, self._share, settings.allocator,
            is_broadcast=settings.is_broadcast, before=self._persist_quietly, after=self._release_unsubscribed,
        )  # fmt: skip
        async with self._unregistered_on_failure(instance):
            if self._assigned is not None:
                await instance.routes.poll({queue.topic for queue in self._assigned})
            await self._introduce(instance)
        if self._assigned is not None:
            self._queues_changed(self._assigned)
        self._rebalancing = instance.start_task(self._rebalance.run(), "rebalance")
        self._watch = instance.start_task(self._watch_topics(instance), "topic queues")
        self._rebalance.soon()

    async def _end(self, instance: ClientInstance) -> None:
        assert self._rebalance is not None
        assert self._fetches is not None
        assert self._store is not None
        await self._rebalance.close(self._rebalancing)
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        held = self._queues_held()
        await self._fetches.close()
        if self._settings.auto_commit:
            # The messages returned last may not be processed; those returned before are.
            self._commit_passed()
        try:
            await self._store.persist(held, wait=True)
        except (HeadraceError, OSError) as error:
            logger.warning("final offsets not stored group=%s error=%r", self._group, str(error))
        await instance.unregister_consumer(self._group)

    # -- queues -----------------------------------------------------------------------------------------------------------

    def _subscription_for(self, topic: str) -> SubscriptionData:
        known = self._subscriptions.get(topic) or self._expressions.get(topic)
        return for_single_pull(subscription_of(topic) if known is None else known)

    async def _share(self, topic: str, _queues: Sequence[MessageQueue], own: Sequence[MessageQueue]) -> bool:
        others = [queue for queue in self._queues_held() if queue.topic != topic]
        lost = [queue for queue in self._queues_held() if queue.topic == topic and queue not in set(own)]
        if lost:
            await self._release(lost)
        if self._queues_changed({*others, *own}):
            self._subscriptions.touch(topic)
            await self._instance.send_heartbeat()
            self._instance.emit(EventKind.REBALANCED, topic=topic, group=self._group, detail=f"{len(own)} queues")
        return True

    async def _release(self, queues: list[MessageQueue]) -> None:
        """Stores the offsets before another member continues."""
        assert self._store is not None
        if self._settings.auto_commit:
            for queue in queues:
                if (offset := self._passed.get(queue)) is not None:
                    self._store.update(queue, offset)
        try:
            await self._store.persist(queues)
        except (HeadraceError, OSError) as error:
            logger.warning("offsets not stored group=%s error=%r", self._group, str(error))
        for queue in queues:
            self._store.remove(queue)

    def _queues_changed(self, queues: Collection[MessageQueue]) -> bool:
        assert self._fetches is not None
        fresh, lost = self._fetches.update(queues)
        for queue in lost:
            self._delivered.pop(queue, None)
            self._passed.pop(queue, None)
        if lost:
            self._call_listener(self._on_revoked, lost)
        if fresh:
            self._call_listener(self._on_assigned, fresh)
        return bool(fresh or lost)

    async def _release_unsubscribed(self) -> None:
        if self._assigned is None:
            kept = [queue for queue in self._queues_held() if queue.topic in self._subscriptions]
            if len(kept) != len(self._queues_held()):
                self._queues_changed(kept)

    def _queues_held(self) -> list[MessageQueue]:
        return [] if self._fetches is None else self._fetches.queues

    def _call_listener(self, listener: QueuesListener | None, queues: Iterable[MessageQueue]) -> None:
        if listener is None:
            return
        try:
            result = listener([self._unwrapped(queue) for queue in queues])
        except Exception:
            logger.exception("queue listener failed group=%s", self._group)
            return
        if inspect.isawaitable(result):
            self._instance.start_task(_wait(result), "queue listener")

    async def _watch_topics(self, instance: ClientInstance) -> None:
        known: dict[str, tuple[MessageQueue, ...]] = {}
        wait_s = min(_FIRST_TOPIC_CHECK_S, seconds(self._settings.topic_check_interval))
        while True:
            for topic, listener in list(self._topic_listeners.items()):
                try:
                    found = (await instance.routes.update(topic)).subscribe_queues
                except HeadraceError as error:
                    logger.debug("queues of topic not checked topic=%s error=%r", topic, str(error))
                    continue
                if topic in known and known[topic] != found:
                    self._call_listener(listener, found)
                known[topic] = found
            await asyncio.sleep(wait_s)
            wait_s = seconds(self._settings.topic_check_interval)

    @property
    def _consume_type(self) -> ConsumeType:
        return ConsumeType.CONSUME_ACTIVELY


async def _wait(awaitable: Awaitable[Any]) -> None:
    await awaitable
