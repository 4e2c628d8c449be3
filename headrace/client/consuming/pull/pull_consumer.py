"""PullConsumer: single pulls from queues that the program chooses; the program manages the offsets (client spec 4.2)."""

# ruff: noqa: ASYNC109 (the broker gets the timeout too)

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias, Unpack

from headrace.client.cluster.instance import ClientInstance
from headrace.client.consuming import queue_requests
from headrace.client.consuming.consumer import Consumer
from headrace.client.consuming.consumer_settings import PullOptions, PullSettings
from headrace.client.consuming.puller import PULL_SUSPEND_MS, SUSPENDED_TIMEOUT_MS, Puller, PullResult
from headrace.client.consuming.rebalance import Rebalance
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.consuming.send_back import SendBack
from headrace.client.consuming.subscriptions import Expression, for_single_pull, subscription_of
from headrace.client.durations import Duration, Moment, epoch_ms, milliseconds
from headrace.client.namespace import wrap
from headrace.client.settings import ConfigLike
from headrace.errors import ConfigError, HeadraceError, RouteNotFound, StateError
from headrace.model.consumption import ConsumeType
from headrace.model.message import MessageExt
from headrace.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)

ShareListener: TypeAlias = Callable[[str, list[MessageQueue], list[MessageQueue]], Any]
"""`listener(topic, all queues, our share)`."""


class PullConsumer(Consumer):
    """Pulls from a queue on request.

        async with PullConsumer("audit", "127.0.0.1:9876") as consumer:
            for queue in await consumer.queues("Orders"):
                offset = await consumer.fetch_offset(queue) or 0
                result = await consumer.pull(queue, "*", offset, 32)
                ...
                consumer.update_offset(queue, result.next_offset)
                await consumer.persist(queue)

    Most programs should use LitePullConsumer. `group` and `config` as for PushConsumer; the other keywords are PullSettings.
    """

    def __init__(self, group: str, config: ConfigLike = None, **options: Unpack[PullOptions]) -> None:
        self._settings = PullSettings(**options)
        super().__init__(group, config, self._settings.model)
        self._puller: Puller | None = None
        self._send_back: SendBack | None = None
        self._shares: dict[str, list[MessageQueue]] = {}
        self._listener: ShareListener | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def settings(self) -> PullSettings:
        """The settings that the consumer was created with."""
        return self._settings

    # -- messages ---------------------------------------------------------------------------------------------------------

    async def pull(
        self,
        queue: MessageQueue,
        expression: Expression = "*",
        offset: int = 0,
        max_messages: int = 32,
        *,
        timeout: Duration | None = None,
        block: bool = False,
    ) -> PullResult:
        """Returns the messages of a queue from an offset on; brokers return at most 32 by default.

        `block`: if there is none, the broker waits for one, for up to 20 s. Otherwise the answer comes at once, within `timeout` (`pull_timeout`).
        Raises ConfigError, BrokerError, BrokerNotFound, RemotingError.
        """
        if offset < 0 or max_messages < 1:
            raise ConfigError(
                f"offset={offset}, max_messages={max_messages}: expected an offset of 0 or more and at least 1 message",
                "offset",
            )
        if self._puller is None or not self.is_running:
            raise self._not_running()
        wrapped = self._wrapped(queue)
        return await self._puller.pull(
            wrapped,
            for_single_pull(subscription_of(wrapped.topic, expression)),
            offset,
            max_messages,
            suspend_ms=PULL_SUSPEND_MS if block else 0,
            timeout_ms=SUSPENDED_TIMEOUT_MS
            if block
            else milliseconds(self._settings.pull_timeout if timeout is None else timeout),
            with_expression=True,
        )

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Makes the broker redeliver the message to the group, through its retry topic; -1: as a dead letter. Raises HeadraceError."""
        if self._send_back is None:
            raise self._not_running()
        broker_name = message.broker_name if isinstance(message, ReceivedMessage) else None
        await self._send_back.send(message, delay_level, broker_name, timeout_ms=3_000)

    # -- offsets ----------------------------------------------------------------------------------------------------------

    def update_offset(self, queue: MessageQueue, offset: int) -> None:
        """Sets an offset; `persist` stores it, and so does a timer for the queues of our share."""
        if self._store is None:
            raise self._not_running()
        self._store.update(self._wrapped(queue), offset)

    async def fetch_offset(self, queue: MessageQueue, *, from_store: bool = False) -> int | None:
        """Returns the offset that was set, or else the stored one; None if there is none. `from_store`: only the stored one. Raises BrokerError, RemotingError."""
        if self._store is None:
            raise self._not_running()
        wrapped = self._wrapped(queue)
        known = None if from_store else self._store.memory(wrapped)
        return await self._store.stored(wrapped) if known is None else known

    async def persist(self, queue: MessageQueue) -> None:
        """Stores a queue's offset; returns when the broker has it. Raises BrokerError, RemotingError."""
        if self._store is None:
            raise self._not_running()
        await self._store.persist([self._wrapped(queue)], wait=True)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Returns the offset of the first message that is still stored. Raises BrokerError, RemotingError."""
        return await queue_requests.min_offset(self._instance, self._wrapped(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Returns the offset of the next message to be stored. Raises BrokerError, RemotingError."""
        return await queue_requests.max_offset(self._instance, self._wrapped(queue))

    async def offset_for_time(self, queue: MessageQueue, moment: Moment) -> int:
        """Returns the offset of the message stored nearest to a time: an aware datetime, or ms since 1970. Raises BrokerError, RemotingError."""
        return await queue_requests.search_offset(self._instance, self._wrapped(queue), epoch_ms(moment))

    # -- queues -----------------------------------------------------------------------------------------------------------

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Returns all readable queues of a topic. Raises RouteNotFound, RemotingError."""
        route = await self._instance.routes.update(wrap(self._namespace, topic))
        if not route.subscribe_queues:
            raise RouteNotFound(f"the topic {topic} has no readable queue", topic)
        return [self._unwrapped(queue) for queue in route.subscribe_queues]

    def register_topic(self, topic: str, listener: ShareListener | None = None) -> None:
        """Divides a topic's queues among the members of the group: `in_balance` returns our share.

        `listener(topic, all, ours)` is called when our share has changed; the listener registered last is used for all topics.
        """
        wrapped = wrap(self._namespace, topic)
        if wrapped not in self._subscriptions:
            self._subscriptions.put(subscription_of(wrapped))
        if listener is not None:
            self._listener = listener
        if self._state == "running":
            self._instance.start_task(self._subscribed(), "subscription")

    def in_balance(self, topic: str) -> list[MessageQueue]:
        """Returns our current share of a registered topic's queues. Raises StateError for a topic that is not registered."""
        wrapped = wrap(self._namespace, topic)
        if wrapped not in self._subscriptions:
            raise StateError(f"the topic {topic} is not registered; call register_topic first", self._state)
        return [self._unwrapped(queue) for queue in self._shares.get(wrapped, [])]

    # -- life -------------------------------------------------------------------------------------------------------------

    async def _begin(self, instance: ClientInstance) -> None:
        settings = self._settings
        await self._open_store(instance, settings.offset_store, settings.offsets_directory)
        self._puller = Puller(instance, self._group)
        self._send_back = SendBack(instance, self._group, settings.max_reconsume_times)
        # order: raises if the group has a member here already; nothing may be left in an instance that others share.
        instance.register_consumer(self)
        self._rebalance = Rebalance(
            instance, self._group, self.subscribed_topics, self._share, settings.allocator,
            is_broadcast=settings.is_broadcast, before=self._persist_quietly, after=_nothing,
        )  # fmt: skip
        async with self._unregistered_on_failure(instance):
            await self._introduce(instance)
        self._task = instance.start_task(self._rebalance.run(), "rebalance")
        self._rebalance.soon()

    async def _end(self, instance: ClientInstance) -> None:
        assert self._rebalance is not None
        assert self._store is not None
        await self._rebalance.close(self._task)
        try:
            await self._store.persist(self._queues_held(), wait=True)
        except (HeadraceError, OSError) as error:
            logger.warning("final offsets not stored group=%s error=%r", self._group, str(error))
        await instance.unregister_consumer(self._group)

    async def _share(self, topic: str, queues: Sequence[MessageQueue], own: Sequence[MessageQueue]) -> bool:
        before = self._shares.get(topic, [])
        if sorted(before) == sorted(own):
            return True
        assert self._store is not None
        lost = [queue for queue in before if queue not in set(own)]
        try:
            await self._store.persist(lost, wait=True)
        except (HeadraceError, OSError) as error:
            logger.warning("offsets not stored group=%s error=%r", self._group, str(error))
        for queue in lost:
            self._store.remove(queue)
        self._shares[topic] = list(own)
        if self._listener is not None:
            self._listener(
                self._unwrapped(queues[0]).topic, [*map(self._unwrapped, queues)], [*map(self._unwrapped, own)]
            )
        return True

    def _queues_held(self) -> Collection[MessageQueue]:
        return [queue for share in self._shares.values() for queue in share]

    @property
    def _consume_type(self) -> ConsumeType:
        return ConsumeType.CONSUME_ACTIVELY


async def _nothing() -> None:
    """Does nothing: a pull consumer has no queues to release."""
