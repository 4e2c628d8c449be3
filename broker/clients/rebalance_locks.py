"""RebalanceLocks: which client has locked a queue for orderly consumption (remoting spec 4.17).

In memory only, by client id and not by connection: after a crash of the owner the others wait until its lock has not
been renewed for 60 s.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from headrace.model.message_queue import MessageQueue

LOCK_LIFE_MS = 60_000


class _Lock(Struct):
    client_id: str
    updated_ms: int


class RebalanceLocks:
    """Locks by group and queue. `clock_ms` is monotonic."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Locks the queues that are free, its own, or expired; returns those that the client owns now."""
        now = self._clock_ms()
        locks = self._locks.get(group, {})
        owned = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None or lock.client_id == client_id or now - lock.updated_ms > LOCK_LIFE_MS:
                locks[queue] = _Lock(client_id, now)
                owned.append(queue)
        if owned:
            self._locks[group] = locks
        return owned

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Unlocks those of the queues that the client owns."""
        locks = self._locks.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            self._locks.pop(group, None)

    def owners(self, group: str) -> dict[MessageQueue, str]:
        """The owners of the group's locked queues."""
        return {queue: lock.client_id for queue, lock in self._locks.get(group, {}).items()}
