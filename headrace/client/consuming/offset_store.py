"""Offset stores: how far a group has come in each queue; in memory at once, and kept every few seconds (client spec 3.10).

    RemoteOffsets     at the queue's broker: groups that share out their queues
    LocalOffsets      in a file of this machine (offset_file.py): broadcasting, where each member has its own
    GivenOffsets      in a store of the program's own, an OffsetStore, whose errors it keeps from the client

Queues carry the namespace. What `update` is told is in memory only until `persist`.
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
"""An offset that has not changed is sent again after so long, in case the broker was restored from an older copy."""


class OffsetStore(Protocol):
    """Where offsets are kept: what a store of a program's own must have. All is called in the consumer's loop, and must not block it. Queues carry the
    namespace.

    What it raises beyond the errors named here is logged once for each method, and does no harm; `load` alone keeps the consumer from starting.
    """

    async def load(self) -> None:
        """Reads what has to be read before the first use."""

    def update(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """Notes an offset in memory; `only_up`: unless a higher one is noted."""

    def memory(self, queue: MessageQueue) -> int | None:
        """The offset in memory, None if there is none."""

    async def stored(self, queue: MessageQueue) -> int | None:
        """The offset that is kept, None if none is. Raises HeadraceError if it cannot be known."""

    async def persist(self, queues: Collection[MessageQueue], *, wait: bool = False) -> None:
        """Keeps the offsets of these queues. `wait`: returns when they are kept, or raises HeadraceError or OSError; else these are only logged."""

    def remove(self, queue: MessageQueue) -> None:
        """Forgets what is in memory."""

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        """What is in memory, of one topic or of all."""


class Offsets(OffsetStore, Protocol):
    """A store, as consumers use it: pulls bring offsets to brokers as well."""

    def by_pull(self, queue: MessageQueue) -> contextlib.AbstractAsyncContextManager[None] | None:
        """What a pull that brings an offset of the queue along has to hold meanwhile; None: none may, until one has been kept by `persist`."""


class OffsetMemory:
    """The half of a store that is the same for all: offsets in memory."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """Notes an offset."""
        if not only_up or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def memory(self, queue: MessageQueue) -> int | None:
        """The offset in memory."""
        return self._offsets.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Forgets what is in memory."""
        self._offsets.pop(queue, None)

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        """What is in memory."""
        return {queue: offset for queue, offset in self._offsets.items() if not topic or queue.topic == topic}

    def by_pull(self, queue: MessageQueue) -> contextlib.AbstractAsyncContextManager[None] | None:  # noqa: ARG002
        """Nothing has to be held: what is kept here is not at the broker."""
        return contextlib.nullcontext()


class GivenOffsets:
    """A store of the program's own. What it raises ends no task of the client's: it is logged, and then the store has not noted, or does not know."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._complained: set[str] = set()

    async def load(self) -> None:
        """As the store does; what it raises is for who starts the consumer."""
        await self._store.load()

    def update(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """Notes an offset, if it can."""
        self._call("update", lambda: self._store.update(queue, offset, only_up=only_up), None)

    def memory(self, queue: MessageQueue) -> int | None:
        """The offset in memory, None if there is none, or if it cannot be said."""
        return self._call("memory", lambda: self._store.memory(queue), None)

    async def stored(self, queue: MessageQueue) -> int | None:
        """The offset that is kept. Raises HeadraceError for whatever the store raises: then nobody knows where to go on."""
        try:
            return await self._store.stored(queue)
        except Exception as error:
            raise self._failure("stored", error) from error

    async def persist(self, queues: Collection[MessageQueue], *, wait: bool = False) -> None:
        """Keeps the offsets. Raises HeadraceError for whatever the store raises."""
        try:
            await self._store.persist(queues, wait=wait)
        except Exception as error:
            raise self._failure("persist", error) from error

    def remove(self, queue: MessageQueue) -> None:
        """Forgets what is in memory, if it can."""
        self._call("remove", lambda: self._store.remove(queue), None)

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        """What is in memory; nothing, if that cannot be said."""
        return self._call("offsets", lambda: self._store.offsets(topic), {})

    def by_pull(self, queue: MessageQueue) -> contextlib.AbstractAsyncContextManager[None] | None:  # noqa: ARG002
        """Nothing has to be held: what is kept there is not at the broker."""
        return contextlib.nullcontext()

    def _call(self, method: str, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 (it is the program's; the client goes on)
            self._complain(method, error)
            return otherwise

    def _failure(self, method: str, error: Exception) -> HeadraceError:
        if isinstance(error, HeadraceError):
            return error
        if not isinstance(error, OSError):
            self._complain(method, error)
        return HeadraceError(f"the offset store's {method} failed: {type(error).__name__}: {error}")

    def _complain(self, method: str, error: Exception) -> None:
        # Once: some are called with every message.
        level = logging.DEBUG if method in self._complained else logging.ERROR
        self._complained.add(method)
        logger.log(level, "offset store failed method=%s", method, exc_info=error)


class RemoteOffsets(OffsetMemory):
    """Offsets at the brokers. Only those that changed are sent, and the others once a minute.

    Each is sent as a request with an answer, one at a time for a queue: brokers handle requests in several threads, and of two that are under
    way the older may be stored last. The first of a topic goes to its broker alone: Apache's makes the group's table then, and when two
    threads make it at once, one of the tables and what is in it is lost, though both were answered (quirks.md). Who waits for an offset to be
    stored has it sent whether it changed or not: pulls bring offsets along as well, and the broker is to have this one.
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
        """Nothing is read beforehand."""

    async def stored(self, queue: MessageQueue) -> int | None:
        """What the broker has. Raises BrokerNotFound, BrokerError, RemotingError: then nobody knows where to go on."""
        return await queue_requests.consumer_offset(self._instance, self._group, queue)

    def by_pull(self, queue: MessageQueue) -> contextlib.AbstractAsyncContextManager[None] | None:
        """The queue's turn: no offset of it is sent here until the pull is answered. None as long as the first of its topic is not stored."""
        # compat: pulls of several queues would bring the topic's first offset along at once.
        return self._turn(queue) if self._is_begun(queue) else None

    def _is_begun(self, queue: MessageQueue) -> bool:
        return (queue.topic, queue.broker_name) in self._begun

    @contextlib.asynccontextmanager
    async def _turn(self, queue: MessageQueue) -> AsyncIterator[None]:
        async with self._turns.setdefault(queue, asyncio.Lock()):
            self._sent.pop(queue, None)
            yield

    async def persist(self, queues: Collection[MessageQueue], *, wait: bool = False) -> None:
        """Sends the offsets to the brokers. `wait` raises what kept one of them from being stored."""
        known = [(queue, offset) for queue in queues if (offset := self._offsets.get(queue)) is not None]
        results = await asyncio.gather(
            *(self._send(queue, offset, always=wait) for queue, offset in known), return_exceptions=True
        )
        problems = [result for result in results if isinstance(result, BaseException)]
        for (queue, offset), result in zip(known, results, strict=True):
            if isinstance(result, HeadraceError):
                logger.warning(
                    "offset not stored group=%s queue=%s offset=%d reason=%s", self._group, queue, offset, result
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
        """Sends it, alone, if nothing of its topic has been stored at its broker yet; whether that was so."""
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
        """Forgets what is in memory, and what was sent: another member may have gone on since."""
        super().remove(queue)
        self._sent.pop(queue, None)
