"""Offset stores: a group's offset in each queue; in memory, and stored every few seconds (client spec 3.10).

    RemoteOffsets     at the queue's broker: groups that divide their queues among members
    LocalOffsets      in a file on this machine (offset_file.py): broadcasting, where each member has its own offsets
    GivenOffsets      in an OffsetStore of the program, whose errors must not stop the client

Queues include the namespace. `update` changes memory only; `persist` stores it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final, Protocol, TypeVar
from weakref import WeakValueDictionary

from headrace.client.cluster.instance import ClientInstance
from headrace.client.consuming import queue_requests
from headrace.errors import HeadraceError
from headrace.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)

T = TypeVar("T")

RESEND_S: Final = 60.0
"""An unchanged offset is sent again after this time, in case the broker was restored from an older backup."""


class OffsetStore(Protocol):
    """What an offset store must implement. All methods are called in the consumer's loop and must not block it. Queues include the namespace.

    Other exceptions than those named here are logged once for each method and have no other effect; only `load` prevents the consumer's start.
    """

    async def load(self) -> None:
        """Reads what is needed before the first use."""

    def update(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """Sets an offset in memory; with `only_up`, unless a higher one is set."""

    def memory(self, queue: MessageQueue) -> int | None:
        """Returns the offset in memory, None if there is none."""

    async def stored(self, queue: MessageQueue) -> int | None:
        """Returns the stored offset, None if there is none. Raises HeadraceError if it cannot be read."""

    async def persist(self, queues: Collection[MessageQueue], *, wait: bool = False) -> None:
        """Stores the offsets of these queues. `wait`: returns when they are stored, or raises HeadraceError or OSError; otherwise failures are only logged."""

    def remove(self, queue: MessageQueue) -> None:
        """Removes a queue from memory."""

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        """Returns the offsets in memory, of one topic or of all."""


class Offsets(OffsetStore, Protocol):
    """An OffsetStore as consumers use it: pulls carry offsets to brokers too."""

    def by_pull(self, queue: MessageQueue) -> contextlib.AbstractAsyncContextManager[None] | None:
        """Returns what to hold during a pull that carries an offset of the queue. None: no pull may carry one before `persist` has stored one."""


class OffsetMemory:
    """The part that all stores share: offsets in memory."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """Sets an offset."""
        if not only_up or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def memory(self, queue: MessageQueue) -> int | None:
        """Returns the offset in memory."""
        return self._offsets.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Removes a queue from memory."""
        self._offsets.pop(queue, None)

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        """Returns the offsets in memory."""
        return {queue: offset for queue, offset in self._offsets.items() if not topic or queue.topic == topic}

    def by_pull(self, queue: MessageQueue) -> contextlib.AbstractAsyncContextManager[None] | None:  # noqa: ARG002
        """Nothing has to be held: these offsets are not at the broker."""
        return contextlib.nullcontext()


class GivenOffsets:
    """A store of the program. Its exceptions end none of the client's tasks: they are logged, and the offset counts as not set or unknown."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._logged: set[str] = set()

    async def load(self) -> None:
        """Loads the store; its exceptions reach the program that starts the consumer."""
        await self._store.load()

    def update(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """Sets an offset, if the store can."""
        self._call("update", lambda: self._store.update(queue, offset, only_up=only_up), None)

    def memory(self, queue: MessageQueue) -> int | None:
        """Returns the offset in memory, None if there is none or the store failed."""
        return self._call("memory", lambda: self._store.memory(queue), None)

    async def stored(self, queue: MessageQueue) -> int | None:
        """Returns the stored offset. Raises HeadraceError for any exception of the store, because the start is unknown then."""
        try:
            return await self._store.stored(queue)
        except Exception as error:
            raise self._failure("stored", error) from error

    async def persist(self, queues: Collection[MessageQueue], *, wait: bool = False) -> None:
        """Stores the offsets. Raises HeadraceError for any exception of the store."""
        try:
            await self._store.persist(queues, wait=wait)
        except Exception as error:
            raise self._failure("persist", error) from error

    def remove(self, queue: MessageQueue) -> None:
        """Removes a queue from memory, if the store can."""
        self._call("remove", lambda: self._store.remove(queue), None)

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        """Returns the offsets in memory; none if the store failed."""
        return self._call("offsets", lambda: self._store.offsets(topic), {})

    def by_pull(self, queue: MessageQueue) -> contextlib.AbstractAsyncContextManager[None] | None:  # noqa: ARG002
        """Nothing has to be held: these offsets are not at the broker."""
        return contextlib.nullcontext()

    def _call(self, method: str, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 (the store is the program's; the client continues)
            self._log_failure(method, error)
            return otherwise

    def _failure(self, method: str, error: Exception) -> HeadraceError:
        if isinstance(error, HeadraceError):
            return error
        if not isinstance(error, OSError):
            self._log_failure(method, error)
        return HeadraceError(f"the offset store's {method} failed: {type(error).__name__}: {error}")

    def _log_failure(self, method: str, error: Exception) -> None:
        # Only once at this level: some methods are called for every message.
        level = logging.DEBUG if method in self._logged else logging.ERROR
        self._logged.add(method)
        logger.log(level, "offset store failed method=%s", method, exc_info=error)


class RemoteOffsets(OffsetMemory):
    """Offsets at the brokers. Changed offsets are sent at once, unchanged ones once a minute.

    Each is a request with an answer, one at a time for each queue: brokers handle requests in several threads, and of two in flight the older one may
    be stored last. The first offset of a topic is sent alone: Apache's broker creates the group's table then, and if two threads create it at once, one
    table is lost with its contents, though both requests were answered (quirks.md). `persist` with `wait` sends an offset even if it is unchanged,
    because pulls carry offsets too and the broker must end up with this one.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        super().__init__()
        self._instance = instance
        self._group = group
        self._sent: dict[MessageQueue, tuple[int, float]] = {}
        self._turns: WeakValueDictionary[MessageQueue, asyncio.Lock] = WeakValueDictionary()
        self._firsts: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._begun: set[tuple[str, str]] = set()

    async def load(self) -> None:
        """Does nothing: offsets are read when they are needed."""

    async def stored(self, queue: MessageQueue) -> int | None:
        """Returns the broker's offset. Raises BrokerNotFound, BrokerError, RemotingError; the start is unknown then."""
        return await queue_requests.consumer_offset(self._instance, self._group, queue)

    def by_pull(self, queue: MessageQueue) -> contextlib.AbstractAsyncContextManager[None] | None:
        """Returns the queue's lock: no other offset of it is sent until the pull is answered. None until the first of its topic is stored."""
        # compat: otherwise pulls of several queues could carry the topic's first offset at once.
        return self._turn(queue) if self._is_begun(queue) else None

    def _is_begun(self, queue: MessageQueue) -> bool:
        return (queue.topic, queue.broker_name) in self._begun

    @contextlib.asynccontextmanager
    async def _turn(self, queue: MessageQueue) -> AsyncIterator[None]:
        async with self._turns.setdefault(queue, asyncio.Lock()):
            self._sent.pop(queue, None)
            yield

    async def persist(self, queues: Collection[MessageQueue], *, wait: bool = False) -> None:
        """Sends the offsets to the brokers. With `wait` it raises the first failure."""
        known = [(queue, offset) for queue in queues if (offset := self._offsets.get(queue)) is not None]
        results = await asyncio.gather(
            *(self._send(queue, offset, always=wait) for queue, offset in known), return_exceptions=True
        )
        problems = [result for result in results if isinstance(result, BaseException)]
        for (queue, offset), result in zip(known, results, strict=True):
            if isinstance(result, HeadraceError):
                logger.warning(
                    "offset not stored group=%s queue=%s offset=%d error=%r",
                    self._group,
                    queue.label,
                    offset,
                    str(result),
                )
        if problems and (wait or not isinstance(problems[0], HeadraceError)):
            raise problems[0]

    async def _send(self, queue: MessageQueue, offset: int, *, always: bool) -> None:
        async with self._turns.setdefault(queue, asyncio.Lock()):
            sent, at = self._sent.get(queue, (-1, 0.0))
            now = time.monotonic()
            if always or sent != offset or now - at > RESEND_S:
                if not await self._sent_as_first(queue, offset):
                    await queue_requests.update_consumer_offset(self._instance, self._group, queue, offset)
                self._sent[queue] = offset, now

    async def _sent_as_first(self, queue: MessageQueue, offset: int) -> bool:
        """Sends the offset alone if the broker has stored none of its topic yet; returns whether it did."""
        table = queue.topic, queue.broker_name
        if self._is_begun(queue):
            return False
        async with self._firsts.setdefault(table, asyncio.Lock()):
            if self._is_begun(queue):
                return False
            await queue_requests.update_consumer_offset(self._instance, self._group, queue, offset)
            self._begun.add(table)
            return True

    def remove(self, queue: MessageQueue) -> None:
        """Removes a queue from memory, and what was sent: another member may have continued since."""
        super().remove(queue)
        self._sent.pop(queue, None)
