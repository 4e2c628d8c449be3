"""Cluster: the one connection of the console to a cluster.

Every page reads through `read`, which shares answers for a moment: fifty open consoles cost a broker as much as one. A key that is
being fetched is fetched once, however many pages ask. At most `_CONCURRENCY` requests are in progress.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from msgspec import Struct

from headrace import Admin, Producer
from headrace.client.settings import ClientConfig

T = TypeVar("T")
K = TypeVar("K")

PRODUCER_GROUP: Final = "headrace_console"
FRESH_S: Final = 2.0
"""How long an answer is shared, unless the caller says otherwise."""
_SEND_TIMEOUT_S: Final = 20.0
"""Of messages that users send: a send that is given up too early is repeated, and the message may be stored twice."""
_CONCURRENCY: Final = 16  # limit: admin requests in progress; a broker answers thousands a second
_MOST_ANSWERS: Final = 4_096  # limit: answers that are kept, a few KiB each


class _Answer(Struct):
    task: asyncio.Task[Any]
    fetched_at: float


class Cluster:
    """One cluster. An asynchronous context manager."""

    def __init__(self, config: ClientConfig) -> None:
        self.admin = Admin(config)
        self.config = config
        self._producer: Producer | None = None
        self._producer_starts = asyncio.Lock()
        self._answers: dict[tuple[Any, ...], _Answer] = {}
        self._room = asyncio.Semaphore(_CONCURRENCY)

    async def __aenter__(self) -> Self:
        await self.admin.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for answer in self._answers.values():
            answer.task.cancel()
        if self._producer is not None:
            await self._producer.close()
        await self.admin.close()

    async def read(self, key: tuple[Any, ...], fetch: Callable[[Admin], Awaitable[T]], fresh_s: float = FRESH_S) -> T:
        """The answer of `fetch`, or one that is at most `fresh_s` old. `key` names it. Raises as `fetch`; failures are not kept.

        The answer is shared: do not change it.
        """
        now = asyncio.get_running_loop().time()
        known = self._answers.get(key)
        if known is None or (known.task.done() and (now - known.fetched_at > fresh_s or _has_failed(known.task))):
            self._forget_old()
            known = _Answer(asyncio.create_task(self._fetch(fetch)), now)
            # Retrieves the exception if every page has given up.
            known.task.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._answers[key] = known
        result: T = await asyncio.shield(known.task)
        return result

    async def ask(self, fetch: Callable[[Admin], Awaitable[T]]) -> T:
        """The answer of `fetch`, neither shared nor kept: for large ones, such as messages with their bodies. Raises as `fetch`."""
        return await self._fetch(fetch)

    async def map(self, one: Callable[[K], Awaitable[T]], keys: Iterable[K]) -> list[T | Exception]:
        """Calls `one` for each key at once; in place of an answer the exception. The calls use `read`, which bounds their number."""
        answers: Sequence[T | BaseException] = await asyncio.gather(*map(one, keys), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, Exception):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BaseException) or isinstance(answer, Exception)]

    async def producer(self) -> Producer:
        """The producer for messages that users send; it starts with the first one."""
        async with self._producer_starts:
            if self._producer is None:
                self._producer = await Producer(PRODUCER_GROUP, self.config, send_timeout=_SEND_TIMEOUT_S).start()
        return self._producer

    def forget(self) -> None:
        """Forget all answers: something was changed, and the next page must show it."""
        self._answers.clear()

    async def _fetch(self, fetch: Callable[[Admin], Awaitable[T]]) -> T:
        async with self._room:
            return await fetch(self.admin)

    def _forget_old(self) -> None:
        if len(self._answers) >= _MOST_ANSWERS:
            oldest = sorted(self._answers, key=lambda key: self._answers[key].fetched_at)[: _MOST_ANSWERS // 4]
            for key in oldest:
                del self._answers[key]


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None
