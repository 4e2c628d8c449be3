"""AssignedQueues: the queues of a push consumer, from assignment to release (client spec 3.3).

    assigned  (orderly: locked at the broker) ─► start offset ─► process queue ─► pulled
    lost      dropped ─► offset stored ─► forgotten
    lost      (orderly) dropped ─► running handler returns ─► offset stored ─► unlocked: the next owner continues exactly there

A queue that cannot be started now, because it is locked or its offset is unknown, is left for the next round.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from headrace.client.cluster.instance import ClientInstance, StartTask
from headrace.client.consuming.offset_store import OffsetStore
from headrace.client.consuming.process_queue import ProcessQueue
from headrace.client.consuming.puller import Puller
from headrace.client.consuming.push.consume_concurrent import ConcurrentService
from headrace.client.consuming.push.consume_orderly import OrderlyService
from headrace.client.consuming.push.queue_locks import QueueLocks
from headrace.client.consuming.start_offset import StartFrom, start_offset
from headrace.errors import HeadraceError
from headrace.model.message_queue import MessageQueue

logger = logging.getLogger(__name__)

SETTLE_S: Final = 5.0  # limit: how long to wait for a pull that stores an offset; brokers answer it at once
LEAVE_S: Final = 20.0  # limit: how long a lost queue stays locked for a handler that does not return


class AssignedQueues:
    """The table of process queues of one consumer."""

    def __init__(
        self,
        instance: ClientInstance,
        store: OffsetStore,
        start_from: StartFrom,
        puller: Puller,
        locks: QueueLocks | None,
        start_task: StartTask,
    ) -> None:
        self._instance = instance
        self._store = store
        self._start_from = start_from
        self._puller = puller
        self._locks = locks
        self._start_task = start_task
        self._assigned: dict[MessageQueue, ProcessQueue] = {}
        self._pulls: dict[MessageQueue, asyncio.Task[None]] = {}
        self._leaving: dict[MessageQueue, ProcessQueue] = {}
        self._leaves: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._assigned)

    def __iter__(self) -> Iterator[ProcessQueue]:
        return iter(list(self._assigned.values()))

    def queues(self, topic: str | None = None) -> list[MessageQueue]:
        """Returns the queues, of one topic or of all."""
        return [queue for queue in self._assigned if topic is None or queue.topic == topic]

    def get(self, queue: MessageQueue) -> ProcessQueue | None:
        """Returns the process queue of a queue, None if we do not have it."""
        return self._assigned.get(queue)

    async def lose(self, topic: str, own: Collection[MessageQueue]) -> list[MessageQueue]:
        """Releases the topic's queues that are no longer ours; returns them."""
        wanted = set(own)
        lost = [one for queue, one in self._assigned.items() if queue.topic == topic and queue not in wanted]
        for process_queue in lost:
            logger.info("queue released queue=%s", process_queue.queue.label)
        await asyncio.gather(*(self.release(process_queue) for process_queue in lost))
        return [one.queue for one in lost]

    async def take(self, own: Sequence[MessageQueue]) -> tuple[list[ProcessQueue], bool]:
        """Creates process queues for those of our queues that have none yet; returns them, and whether it succeeded for all. They are not pulled yet."""
        fresh = [queue for queue in own if queue not in self._assigned]
        possible = [queue for queue in fresh if queue not in self._leaving]
        granted = set(possible)
        if self._locks is not None and possible:
            granted, refused = await self._locks.lock(possible)
            for queue in refused:
                logger.info("queue still locked by another member queue=%s", queue.label)
        made = await asyncio.gather(*(self._begin(queue) for queue in possible if queue in granted))
        taken = [one for one in made if one is not None]
        for process_queue in taken:
            self._assigned[process_queue.queue] = process_queue
            logger.info("queue assigned queue=%s offset=%d", process_queue.queue.label, process_queue.next_offset)
        return taken, len(taken) == len(fresh)

    async def _begin(self, queue: MessageQueue) -> ProcessQueue | None:
        self._store.remove(queue)
        try:
            offset = await start_offset(self._instance, self._store, self._start_from, queue)
        except HeadraceError as error:
            logger.warning("queue not started, offset unknown queue=%s error=%r", queue.label, str(error))
            return None
        process_queue = ProcessQueue(queue, offset)
        if self._locks is not None:
            process_queue.lock_confirmed()
        return process_queue

    def start(
        self,
        taken: Sequence[ProcessQueue],
        service: ConcurrentService | OrderlyService,
        pull: Callable[[ProcessQueue], "asyncio.Task[None]"],
    ) -> None:
        """Starts to consume queues that were taken."""
        for process_queue in taken:
            if not process_queue.is_dropped:
                service.hold(process_queue)
                self._pulls[process_queue.queue] = pull(process_queue)

    async def release(self, process_queue: ProcessQueue, offset: int | None = None) -> None:
        """Releases a queue after storing its offset. `offset`: where to continue, if that differs from the current one."""
        queue = process_queue.queue
        process_queue.drop()
        if self._assigned.get(queue) is process_queue:
            del self._assigned[queue]
            self._puller.forget(queue)
        pull = self._pulls.pop(queue, None)
        pulls = [] if pull is None else [pull]
        if pull is not None:
            _stop(process_queue, pull)
        if offset is not None:
            process_queue.clear()
            self._store.update(queue, offset)
        if self._locks is None:
            await _settle(pulls)
            await self._keep(queue, wait=offset is not None)
            self._store.remove(queue)
        else:
            self._leaving[queue] = process_queue
            task = self._start_task(self._leave(process_queue, pulls, self._locks), "queue leave")
            self._leaves.add(task)
            task.add_done_callback(self._leaves.discard)

    async def _keep(self, queue: MessageQueue, *, wait: bool) -> None:
        try:
            await self._store.persist([queue], wait=wait)
        except (HeadraceError, OSError) as error:
            logger.warning("offset not stored queue=%s error=%r", queue.label, str(error))

    async def _leave(
        self, process_queue: ProcessQueue, pulls: Collection["asyncio.Task[None]"], locks: QueueLocks
    ) -> None:
        queue = process_queue.queue
        try:
            try:
                async with asyncio.timeout(LEAVE_S):
                    await process_queue.consume_lock.acquire()
            except TimeoutError:
                logger.warning("handler still running, queue released anyway queue=%s", queue.label)
            await _settle(pulls)
            # order: the offset is at the broker before another member can lock the queue and ask for it.
            await self._keep(queue, wait=True)
            self._store.remove(queue)
            process_queue.unlock_tries += 1
            process_queue.is_locked = False
            await locks.unlock([queue])
        finally:
            self._leaving.pop(queue, None)

    async def refresh_locks(self) -> None:
        """Has the brokers confirm all locks, including those of queues that are being released."""
        if self._locks is not None and (self._assigned or self._leaving):
            await self._locks.refresh([*self._assigned.values(), *self._leaving.values()])

    async def close(self) -> None:
        """Releases all queues: offsets are stored, handlers have returned. Unlocks them and waits for the brokers' answers."""
        assigned = list(self._assigned.values())
        for process_queue in assigned:
            process_queue.drop()
        for pull in self._pulls.values():
            pull.cancel()
        if self._pulls:
            await asyncio.wait(self._pulls.values())
        if self._leaves:
            await asyncio.wait(self._leaves, timeout=LEAVE_S)
        if self._locks is not None and assigned:
            await self._locks.unlock([one.queue for one in assigned], wait=True)
        self._assigned.clear()
        self._pulls.clear()

    async def stop_pulling(self) -> None:
        """Stops all pulls; pulled messages are still consumed. Afterwards no pull changes an offset."""
        for queue, pull in self._pulls.items():
            _stop(self._assigned[queue], pull)
        await _settle(list(self._pulls.values()))


def _stop(process_queue: ProcessQueue, pull: "asyncio.Task[None]") -> None:
    """Stops a pull: at once, or, if it stores an offset, when that is done."""
    process_queue.is_pulled = False
    if not process_queue.is_storing:
        pull.cancel()


async def _settle(pulls: Collection["asyncio.Task[None]"]) -> None:
    """Waits until stopped pulls have ended, so that an offset that one carries is not stored after the final one."""
    if pulls:
        _, late = await asyncio.wait(pulls, timeout=SETTLE_S)
        for pull in late:
            pull.cancel()
