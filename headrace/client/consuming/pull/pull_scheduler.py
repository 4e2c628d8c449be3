"""PullScheduler: calls a function of the program repeatedly for each queue of our share, to pull from it (client spec 4.3)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, TypeVar, Unpack

from headrace.client.cluster.instance import ClientInstance
from headrace.client.consuming.consumer_settings import PullOptions
from headrace.client.consuming.pull.pull_consumer import PullConsumer
from headrace.client.namespace import wrap
from headrace.client.settings import ConfigLike
from headrace.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)

DELAY_S: Final = 0.2
FAILED_DELAY_S: Final = 1.0

PullTask: TypeAlias = Callable[[MessageQueue, "PullScheduler"], Awaitable[float | None]]
"""`(queue, scheduler)`; returns the seconds until the next call."""
F = TypeVar("F", bound=PullTask)


class PullScheduler(PullConsumer):
    """A PullConsumer that divides topics among the group's members and calls a coroutine function for each of its queues.

        scheduler = PullScheduler("audit", "127.0.0.1:9876")

        @scheduler.task("Orders")
        async def look(queue, scheduler):
            offset = await scheduler.fetch_offset(queue) or 0
            result = await scheduler.pull(queue, "*", offset, 32)
            ...
            scheduler.update_offset(queue, result.next_offset)
            return 0.0 if result.messages else 1.0      # seconds until the next call; 0.2 if nothing is returned

        async with scheduler:
            await asyncio.Event().wait()

    Offsets are stored every few seconds. After an exception the next call comes a second later.
    """

    def __init__(self, group: str, config: ConfigLike = None, **options: Unpack[PullOptions]) -> None:
        super().__init__(group, config, **options)
        self._functions: dict[str, PullTask] = {}
        self._calls: dict[MessageQueue, asyncio.Task[None]] = {}

    def task(self, topic: str) -> Callable[[F], F]:
        """Decorates the function that pulls from a topic's queues, and registers the topic."""

        def decorate(function: F) -> F:
            self._functions[wrap(self._namespace, topic)] = function
            self.register_topic(topic)
            return function

        return decorate

    async def _share(self, topic: str, queues: Sequence[MessageQueue], own: Sequence[MessageQueue]) -> bool:
        for queue in [one for one in self._calls if one.topic == topic and one not in set(own)]:
            await _end_task(self._calls.pop(queue))
        is_whole = await super()._share(topic, queues, own)
        function = self._functions.get(topic)
        if function is not None:
            for queue in own:
                if queue not in self._calls:
                    self._calls[queue] = self._instance.start_task(self._call(function, queue), "pull task")
        return is_whole

    async def _call(self, function: PullTask, queue: MessageQueue) -> None:
        visible = self._unwrapped(queue)
        while True:
            try:
                delay_s = await function(visible, self)
            except Exception:
                logger.exception("pull task failed queue=%s", queue.label)
                delay_s = FAILED_DELAY_S
            await asyncio.sleep(DELAY_S if delay_s is None else delay_s)

    async def _end(self, instance: ClientInstance) -> None:
        while self._calls:
            await _end_task(self._calls.popitem()[1])
        await super()._end(instance)
        while self._calls:  # a rebalance may be in progress
            await _end_task(self._calls.popitem()[1])


async def _end_task(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
