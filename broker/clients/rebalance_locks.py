"""RebalanceLocks: which client has locked a queue for orderly consumption (remoting spec 4.17).

In memory only, bound to client ids and not to connections: after a crash of the owner the others wait until its lock has
been silent for 60 s.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.model.message_queue import MessageQueue

LOCK_LIFE_MS = 60_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    updated_ms: int


class RebalanceLocks:
    """Locks by group and queue. `clock_ms` is monotonic."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Those of the queues that the client owns now: nobody's, its own, or one whose owner has been silent."""
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
        """Gives up what the client owns of the queues."""
        locks = self._locks.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            self._locks.pop(group, None)

    def owners(self, group: str) -> dict[MessageQueue, str]:
        """Who owns which queue of the group."""
        return {queue: lock.client_id for queue, lock in self._locks.get(group, {}).items()}
