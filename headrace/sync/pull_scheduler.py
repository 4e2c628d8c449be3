"""PullScheduler for threads: the functions that pull are plain ones, each called in a worker thread."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias, TypeVar, Unpack

from headrace.client.consumer_settings import PullOptions
from headrace.client.pull_scheduler import PullScheduler as AsyncPullScheduler
from headrace.client.settings import ConfigLike
from headrace.model.message_queue import MessageQueue
from headrace.sync.clients import PullConsumer
from headrace.sync.face import SyncClient

PullTask: TypeAlias = Callable[[MessageQueue, "PullScheduler"], float | None]
"""`(queue, scheduler)`, returns the seconds until the next call."""
F = TypeVar("F", bound=PullTask)


class PullScheduler(PullConsumer):
    """A PullConsumer that shares topics out among the group's members and calls a function for each queue of ours, in a thread.

        scheduler = PullScheduler("audit", "127.0.0.1:9876")

        @scheduler.task("Orders")
        def look(queue, scheduler):
            result = scheduler.pull(queue, "*", scheduler.fetch_offset(queue) or 0, 32)
            ...
            scheduler.update_offset(queue, result.next_offset)
            return 0.0 if result.messages else 1.0      # seconds until the next call; 0.2 if nothing is returned

    Offsets are stored every few seconds. After an exception the next call comes a second later.
    """

    _client: AsyncPullScheduler

    def __init__(self, group: str, config: ConfigLike = None, **options: Unpack[PullOptions]) -> None:
        SyncClient.__init__(self, AsyncPullScheduler(group, config, **options))

    def task(self, topic: str) -> Callable[[F], F]:
        """Decorates the function that pulls from a topic's queues, and registers the topic."""

        def decorate(function: F) -> F:
            async def call(queue: MessageQueue, _: AsyncPullScheduler) -> float | None:
                return await asyncio.to_thread(function, queue, self)

            self._call(lambda: self._client.task(topic)(call))
            return function

        return decorate
