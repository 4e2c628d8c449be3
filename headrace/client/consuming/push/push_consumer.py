"""PushConsumer: passes messages to the program's handlers as they arrive (client spec 3)."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar, Unpack, overload

from headrace.client.cluster.instance import ClientInstance
from headrace.client.consuming.consume_hooks import ConsumeTraceHook
from headrace.client.consuming.consume_statistics import ConsumeStatistics
from headrace.client.consuming.consumer import Consumer
from headrace.client.consuming.consumer_settings import PushOptions, PushSettings
from headrace.client.consuming.process_queue import ProcessQueue
from headrace.client.consuming.puller import Puller
from headrace.client.consuming.push.assigned_queues import AssignedQueues
from headrace.client.consuming.push.consume_call import HandlerCalls, Handlers
from headrace.client.consuming.push.consume_concurrent import ConcurrentService
from headrace.client.consuming.push.consume_handler import Handler, HandlerFunction
from headrace.client.consuming.push.consume_orderly import MAX_TIMES, OrderlyService
from headrace.client.consuming.push.consume_result import ConsumeContext, Failure
from headrace.client.consuming.push.loop_watch import LoopWatch
from headrace.client.consuming.push.message_stream import MessageHandout, MessageStream
from headrace.client.consuming.push.queue_locks import FIRST_REFRESH_S, REFRESH_S, QueueLocks
from headrace.client.consuming.queue_pull import FlowLimits, PullPlan, QueuePull
from headrace.client.consuming.rebalance import Rebalance
from headrace.client.consuming.received_message import Origin, ReceivedMessage, cut_records
from headrace.client.consuming.send_back import DEFAULT_MAX_RECONSUME_TIMES, SendBack
from headrace.client.consuming.subscriptions import Expression, subscription_of
from headrace.client.durations import seconds
from headrace.client.namespace import wrap
from headrace.client.settings import ConfigLike, EventKind, Trace
from headrace.client.tracing.trace import TraceDispatcher
from headrace.errors import ConfigError, HeadraceError, StateError
from headrace.model import names
from headrace.model.consumption import ConsumeFromWhere, ConsumeType
from headrace.model.message import MessageExt
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from headrace.protocol.bodies.consumer_state import ConsumeResult as DirectResult
from headrace.protocol.record import encode_message

logger = logging.getLogger(__name__)

RESET_WAIT_S: Final = 10.0
"""How long to wait for running handlers of a queue whose offset is reset."""

F = TypeVar("F", bound=HandlerFunction)


class PushConsumer(Consumer):
    """Passes each message of the subscribed topics to a handler of one member of the group, at least once.

        consumer = PushConsumer("billing", "127.0.0.1:9876")

        @consumer.handler("Orders", "paid || shipped")
        async def bill(message):                     # a plain function runs in a worker thread, and may block
            await store(message.keys, message.body)  # an exception: the message is redelivered later

        async with consumer:
            await asyncio.Event().wait()

    `group` names the programs that share the work. `config` is a ClientConfig, the name servers' addresses, or None, which reads the environment. The
    other keywords are PushSettings. A handler that returns None has consumed its message; see ConsumeResult, Retry, Suspend and Reject for other
    outcomes. A message may be delivered twice, after a crash or when queues are reassigned: handlers must be prepared for that.

    Without handlers, messages are taken with `async for message in consumer`: requesting the next one completes the previous one.
    """

    def __init__(self, group: str, config: ConfigLike = None, **options: Unpack[PushOptions]) -> None:
        self._settings = PushSettings(**options)
        super().__init__(group, config, self._settings.model)
        self._handlers = Handlers(self._namespace)
        self._retry_topic = names.retry_topic(self._group)
        self._statistics = ConsumeStatistics()
        self._not_paused = asyncio.Event()
        self._not_paused.set()
        self._workers = self._settings.workers
        self._limits = FlowLimits(
            self._settings.queue_threshold,
            self._settings.queue_threshold_mib,
            None if self._settings.orderly else self._settings.max_span,
        )
        self._calls: HandlerCalls | None = None
        self._service: ConcurrentService | OrderlyService | None = None
        self._assigned: AssignedQueues | None = None
        self._plan: PullPlan | None = None
        self._send_back: SendBack | None = None
        self._tracing: TraceDispatcher | None = None
        self._handout: MessageHandout | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._rebalancing: asyncio.Task[None] | None = None
        self._resetting = asyncio.Lock()
        self._watch: LoopWatch | None = None

    @property
    def settings(self) -> PushSettings:
        """The settings that the consumer was created with."""
        return self._settings

    # -- what to consume --------------------------------------------------------------------------------------------------

    def subscribe(
        self, topic: str, expression: Expression = "*", handler: HandlerFunction | None = None, *, batch: bool = False
    ) -> None:
        """Subscribes to a topic, before the start or while running: to tags (`"a || b"`, `Tags("a", "b")`), `Sql("x > 3")`,
        `FilterFunction("large-orders")`, or all messages.

        `handler(message)` handles its messages; with `batch=True`, `handler(messages, context)`. Without one, the default handler gets them, or
        `async for` takes them. All members of a group must have the same subscriptions. Raises ConfigError.
        """
        wrapped = wrap(self._namespace, topic)
        subscription = subscription_of(wrapped, expression)
        if handler is not None:
            self._handlers.put(wrapped, Handler.of(handler, batch=batch))
        self._subscriptions.put(subscription)
        if self._state == "running":
            self._watch_loop()
            self._instance.start_task(self._subscribed(), "subscription")

    def unsubscribe(self, topic: str) -> None:
        """Ends a subscription and releases its queues."""
        self._subscriptions.remove(wrap(self._namespace, topic))
        self.rebalance_soon()

    @overload
    def handler(self, topic: str, tags: Expression = "*", *, batch: bool = False) -> Callable[[F], F]: ...

    @overload
    def handler(self, topic: F) -> F: ...

    def handler(self, topic: Any, tags: Expression = "*", *, batch: bool = False) -> Any:
        """Decorates a handler: `@consumer.handler("Orders", tags="paid")` also subscribes to the topic, as `subscribe` does.

        `@consumer.handler` alone sets the default handler, for topics that have none.
        """
        if callable(topic):
            self._handlers.default = Handler.of(topic)
            return topic

        def decorate(function: F) -> F:
            self.subscribe(topic, tags, function, batch=batch)
            return function

        return decorate

    # -- while running ----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stops pulling but keeps the queues; messages that were pulled are still handled. May be called again."""
        self._not_paused.clear()
        if self._rebalance is not None:
            self._rebalance.is_paused = True

    def resume(self) -> None:
        """Continues after `pause`."""
        self._not_paused.set()
        if self._rebalance is not None:
            self._rebalance.is_paused = False
            self._rebalance.soon()

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return not self._not_paused.is_set()

    def set_workers(self, count: int) -> None:
        """Changes how many handlers may run at once, 1 to 1000. Raises ConfigError."""
        if not 1 <= count <= 1000:
            raise ConfigError(f"workers={count}: expected a number between 1 and 1000", "workers")
        self._workers = count
        if self._service is not None:
            self._service.resize(count)

    async def send_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Makes the broker redeliver the message to the group, after a delay level, or the broker's choice (0); -1: as a dead letter.

        For messages that a handler has put aside; a handler that raises need not call it. Raises StateError, HeadraceError if no broker accepts it.
        """
        if self._send_back is None:
            raise self._not_running()
        broker_name = message.broker_name if isinstance(message, ReceivedMessage) else None
        await self._send_back.send(message, delay_level, broker_name)

    def assignment(self) -> list[MessageQueue]:
        """Returns the queues that are ours now, sorted, including those of the retry topic."""
        return sorted(map(self._unwrapped, self._queues_held()))

    def stats(self) -> dict[str, Any]:
        """Returns the rates of the last minute by topic: see `ConsumeStatus` (times in ms, rates per second)."""
        return dict(self._statistics.table())

    def __aiter__(self) -> MessageStream:
        """Iterates over messages, for consumers without handlers. Raises StateError if there are handlers."""
        if self._handout is None:
            if not self._handlers.is_empty:
                raise StateError(
                    f"{self!r} has handlers; messages go either to handlers or to `async for`, not both", self._state
                )
            self._handout = MessageHandout()
            self._handlers.default = Handler.of(self._handout.give)
        return MessageStream(self._handout)

    # -- life -------------------------------------------------------------------------------------------------------------

    async def _begin(self, instance: ClientInstance) -> None:
        settings = self._settings
        if not self._subscriptions:
            raise ConfigError("the consumer has no subscription; call subscribe() before start()", "subscription")
        if self._handlers.is_empty:
            aiter(self)
        store = await self._open_store(instance, settings.offset_store, settings.offsets_directory)
        if not settings.is_broadcast:
            self._subscriptions.put(subscription_of(self._retry_topic))
        max_times = settings.max_reconsume_times
        default_times = MAX_TIMES if settings.orderly else DEFAULT_MAX_RECONSUME_TIMES
        self._send_back = SendBack(instance, self._group, default_times if max_times < 0 else max_times)
        calls = self._calls = HandlerCalls(
            self._group, settings.hooks, seconds(settings.consume_timeout), stamp=not settings.orderly
        )
        trace = Trace.of(settings.trace)
        if trace is not None:
            self._tracing = TraceDispatcher(instance, trace, self._group, "CONSUME")
            calls.hooks.append(ConsumeTraceHook(self._tracing))
        send_back = None if settings.is_broadcast else self._send_back
        locks = QueueLocks(instance, self._group) if settings.orderly and not settings.is_broadcast else None
        if settings.orderly:
            self._service = OrderlyService(
                self._handlers, calls, store, send_back, locks, self._statistics, instance.start_task,
                workers=self._workers, batch_size=settings.batch_size, suspend_s=seconds(settings.suspend_time),
                max_reconsume_times=max_times, namespace=self._namespace, name=f"headrace-{self._group}",
            )  # fmt: skip
        else:
            self._service = ConcurrentService(
                self._handlers, calls, store, send_back, self._statistics, instance.start_task,
                workers=self._workers, batch_size=settings.batch_size, name=f"headrace-{self._group}",
            )  # fmt: skip
        puller = Puller(instance, self._group)
        self._assigned = AssignedQueues(instance, store, settings.start_from, puller, locks, instance.start_task)
        self._plan = PullPlan(
            puller, store, self._subscriptions, self._statistics, self._limits, settings.pull_batch_size,
            seconds(settings.pull_interval), settings.post_subscription, settings.is_broadcast, locks is not None,
            self._service.submit, self._offset_illegal, self._is_full, self._introduce_anew, self._not_paused,
        )  # fmt: skip
        # order: raises if the group has a member here already; nothing may be left in an instance that others share.
        instance.register_consumer(self)
        self._rebalance = Rebalance(
            instance, self._group, self.subscribed_topics, self._assign, settings.allocator,
            is_broadcast=settings.is_broadcast, before=self._persist_quietly, after=self._release_unsubscribed,
        )  # fmt: skip
        self._rebalance.is_paused = self.is_paused
        async with self._unregistered_on_failure(instance):
            await self._introduce(instance)
        if self._tracing is not None:
            self._tracing.start()
        self._tasks = [instance.start_task(self._statistics.run(), "statistics")]
        self._watch_loop()
        self._rebalancing = instance.start_task(self._rebalance.run(), "rebalance")
        if locks is not None:
            self._tasks.append(instance.start_task(self._refresh_locks(self._assigned), "queue locks"))
        if isinstance(self._service, ConcurrentService) and send_back is not None:
            self._tasks.append(
                instance.start_task(self._clean_expired(self._service, self._assigned), "expired messages")
            )
        self._rebalance.soon()

    def _watch_loop(self) -> None:
        if self._watch is None and self._handout is None and self._handlers.functions():
            self._watch = LoopWatch(self._handlers.functions, f"headrace-{self._group}")

    async def _end(self, instance: ClientInstance) -> None:
        assert self._rebalance is not None
        assert self._service is not None
        assert self._assigned is not None
        assert self._store is not None
        await self._rebalance.close(self._rebalancing)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._assigned.stop_pulling()
        if self._watch is not None:
            self._watch.close()
        if self._handout is not None:
            self._handout.close()
        # order: handlers return, their results are stored, locks are released, and only then do other members learn that we leave.
        await self._service.drain(seconds(self._settings.close_timeout))
        try:
            await self._store.persist(self._queues_held(), wait=True)
        except (HeadraceError, OSError) as error:
            logger.warning("final offsets not stored group=%s error=%r", self._group, str(error))
        await self._assigned.close()
        await instance.unregister_consumer(self._group)
        await self._service.close()
        if self._tracing is not None:
            await self._tracing.close()

    # -- queues -----------------------------------------------------------------------------------------------------------

    async def _assign(self, topic: str, _queues: Sequence[MessageQueue], own: Sequence[MessageQueue]) -> bool:
        assigned, service, plan, instance = self._assigned, self._service, self._plan, self._instance
        assert assigned is not None
        assert service is not None
        assert plan is not None
        lost = await assigned.lose(topic, own)
        taken, is_whole = await assigned.take(own)
        if lost or taken:
            self._share_limits(len(assigned))
            self._subscriptions.touch(topic)
            # order: brokers reject a pull whose subscription is newer than the one they know.
            await instance.send_heartbeat()
            assigned.start(
                taken, service, lambda process_queue: instance.start_task(QueuePull(plan, process_queue).run(), "pull")
            )
            instance.emit(
                EventKind.REBALANCED, topic=topic, group=self._group, detail=f"{len(assigned.queues(topic))} queues"
            )
        return is_whole

    async def _release_unsubscribed(self) -> None:
        assert self._assigned is not None
        for process_queue in self._assigned:
            if process_queue.queue.topic not in self._subscriptions:
                await self._assigned.release(process_queue)

    def _share_limits(self, assigned: int) -> None:
        settings, assigned = self._settings, max(assigned, 1)
        if settings.topic_threshold is not None:
            self._limits.count = max(1, settings.topic_threshold // assigned)
        if settings.topic_threshold_mib is not None:
            self._limits.size_mib = max(1, settings.topic_threshold_mib // assigned)

    def _offset_illegal(self, process_queue: ProcessQueue, offset: int) -> None:
        process_queue.drop()

        async def begin_anew() -> None:
            assert self._assigned is not None
            await self._assigned.release(process_queue, offset)
            self.rebalance_soon()

        self._instance.start_task(begin_anew(), "offset correction")

    def _is_full(self, process_queue: ProcessQueue, excess: str) -> None:
        if self._opened is not None:
            self._opened.emit(EventKind.FLOW_CONTROL, topic=process_queue.queue.topic, group=self._group, detail=excess)

    def _subscription_failed(self, error: HeadraceError) -> None:
        logger.error("subscription rejected group=%s error=%r", self._group, str(error))
        self._instance.emit(EventKind.CONSUMER_ERROR, group=self._group, detail=str(error))

    async def _refresh_locks(self, assigned: AssignedQueues) -> None:
        await asyncio.sleep(FIRST_REFRESH_S)
        while True:
            await assigned.refresh_locks()
            await asyncio.sleep(REFRESH_S)

    async def _clean_expired(self, service: ConcurrentService, assigned: AssignedQueues) -> None:
        timeout_s = seconds(self._settings.consume_timeout)
        while True:
            await asyncio.sleep(timeout_s)
            for process_queue in assigned:
                await service.clean_expired(process_queue, timeout_s)

    def _queues_held(self) -> Collection[MessageQueue]:
        return [] if self._assigned is None else self._assigned.queues()

    # -- what its instance asks -------------------------------------------------------------------------------------------

    @property
    def _consume_type(self) -> ConsumeType:
        return ConsumeType.CONSUME_PASSIVELY

    @property
    def _consume_from_where(self) -> ConsumeFromWhere:
        return self._settings.start_from.where

    async def reset_offsets(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        """Continues at other offsets; in the background, because running handlers are waited for."""
        self._instance.start_task(self._reset(topic, offsets), "offset reset")

    async def _reset(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        assigned, rebalance, store = self._assigned, self._rebalance, self._store
        assert assigned is not None
        assert rebalance is not None
        assert store is not None
        async with self._resetting:
            rebalance.is_paused = True
            try:
                mine = [one for one in assigned if one.queue.topic == topic and one.queue in offsets]
                for process_queue in mine:
                    process_queue.drop()
                    process_queue.clear()
                # Running handlers finish first, so that redelivered messages do not overtake them.
                end = time.monotonic() + RESET_WAIT_S
                while any(one.outstanding for one in mine) and time.monotonic() < end:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                for process_queue in mine:
                    await assigned.release(process_queue, offsets[process_queue.queue])
                logger.info("offsets reset group=%s topic=%s queues=%d", self._group, topic, len(mine))
            finally:
                rebalance.is_paused = self.is_paused
        rebalance.soon()

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """Returns the runtime information for administration tools."""
        info = await super().running_info(with_stacks=with_stacks)
        info.status_table = self._statistics.table()
        assert self._assigned is not None
        assert self._store is not None
        for process_queue in self._assigned:
            offset = self._store.memory(process_queue.queue)
            if offset is None:
                try:
                    offset = await self._store.stored(process_queue.queue)
                except HeadraceError:
                    offset = None
            info.mq_table[process_queue.queue] = process_queue.info(-1 if offset is None else offset)
        return info

    def _properties(self) -> dict[str, str]:
        settings = self._settings
        mine = {
            "PROP_CONSUMEORDERLY": settings.orderly,
            "PROP_THREADPOOL_CORE_SIZE": self._workers,
            "consumeTimestamp": settings.start_from.timestamp_text,
            "consumeThreadMin": self._workers,
            "consumeThreadMax": self._workers,
            "adjustThreadPoolNumsThreshold": 100_000,
            "consumeConcurrentlyMaxSpan": settings.max_span,
            "pullThresholdForQueue": self._limits.count,
            "pullThresholdSizeForQueue": self._limits.size_mib,
            "pullThresholdForTopic": -1 if settings.topic_threshold is None else settings.topic_threshold,
            "pullThresholdSizeForTopic": -1 if settings.topic_threshold_mib is None else settings.topic_threshold_mib,
            "pullInterval": round(seconds(settings.pull_interval) * 1000),
            "consumeMessageBatchMaxSize": settings.batch_size,
            "pullBatchSize": settings.pull_batch_size,
            "postSubscriptionWhenPull": settings.post_subscription,
            "maxReconsumeTimes": settings.max_reconsume_times,
            "suspendCurrentQueueTimeMillis": round(seconds(settings.suspend_time) * 1000),
            "consumeTimeout": max(1, round(seconds(settings.consume_timeout) / 60)),
            "awaitTerminationMillisWhenShutdown": round(seconds(settings.close_timeout) * 1000),
        }
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in mine.items()}
        return super()._properties() | texts

    async def consume_directly(self, message: MessageExt, broker_name: str | None) -> ConsumeMessageDirectlyResult:
        """Runs the handler for one message now and returns the result. Nothing is sent back, and no offset changes."""
        assert self._calls is not None
        queue = MessageQueue(message.topic, broker_name or "", message.queue_id)
        (received,) = cut_records(encode_message(message), Origin(queue, 0, 0, self._namespace))
        ((handler, (messages,)),) = self._handlers.calls(queue, [received], 1)
        context = ConsumeContext(received.queue)
        began = time.monotonic()
        if handler.is_async:
            outcome = await self._calls.call_async(handler, messages, context)
        else:
            outcome = await asyncio.to_thread(self._calls.call, handler, messages, context)
        return ConsumeMessageDirectlyResult(
            order=self._settings.orderly,
            auto_commit=context.auto_commit,
            consume_result=_direct_result(outcome),
            remark=None
            if outcome is None or outcome.error is None
            else f"{type(outcome.error).__name__}: {outcome.error}",
            spent_time_mills=round((time.monotonic() - began) * 1000),
        )


def _direct_result(outcome: Failure | None) -> DirectResult:
    if outcome is None:
        return DirectResult.CR_SUCCESS
    if outcome.decision is not None:
        return DirectResult.CR_COMMIT if outcome.decision == "commit" else DirectResult.CR_ROLLBACK
    if outcome.error is not None:
        return DirectResult.CR_THROW_EXCEPTION
    return DirectResult.CR_LATER
