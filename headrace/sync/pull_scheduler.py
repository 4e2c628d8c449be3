"""PullScheduler for threads: the functions that pull are plain functions, called in worker threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias, TypeVar, Unpack

from headrace.client.consuming.consumer_settings import PullOptions
from headrace.client.consuming.pull.pull_scheduler import PullScheduler as AsyncPullScheduler
from headrace.client.settings import ConfigLike
from headrace.model.message_queue import MessageQueue
from headrace.sync.clients import PullConsumer
from headrace.sync.sync_client import SyncClient

PullTask: TypeAlias = Callable[[MessageQueue, "PullScheduler"], float | None]
"""`(queue, scheduler)`; returns the seconds until the next call."""
F = TypeVar("F", bound=PullTask)

THREADS: Final = 20
"""How many functions run at the same time, as in the Java client."""


class PullScheduler(PullConsumer):
    """A PullConsumer that divides topics among the group's members and calls a function for each of its queues, in up to 20 threads.

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
        # Not the loop's default threads: functions that wait would block all other work there.
        self._threads = ThreadPoolExecutor(THREADS, f"headrace-{group}")

    def close(self) -> None:
        """Stops calling the functions, stores the offsets, and closes. Does not wait for running functions."""
        super().close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def task(self, topic: str) -> Callable[[F], F]:
        """Decorates the function that pulls from a topic's queues, and registers the topic."""

        def decorate(function: F) -> F:
            async def call(queue: MessageQueue, _: AsyncPullScheduler) -> float | None:
                return await asyncio.get_running_loop().run_in_executor(self._threads, function, queue, self)

            self._call(lambda: self._client.task(topic)(call))
            return function

        return decorate
