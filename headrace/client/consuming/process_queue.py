"""ProcessQueue: the messages of one queue from being pulled until they are consumed (client spec 3.5).

    pulled ──put──► waiting ──────────────────────────► remove ──► the smallest offset not yet consumed, which may be committed
                      │  ▲
                 take │  │ rollback              (orderly consumers only)
                      ▼  │
                   taken by a handler ──commit──► the offset after them

Offsets are put in ascending order, so a dict keeps them sorted. A queue that was lost is dropped: none of it is consumed any more, and the results of
its running handlers are ignored. Belongs to the loop; handlers' threads only read `is_dropped` and the lock's time.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.durations import now_ms
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ProcessQueueInfo

LOCK_LIFETIME_S: Final = 30.0
"""How long a broker's lock is trusted after its last confirmation; at the broker it lasts twice as long."""
MIB: Final = 1024 * 1024


class ProcessQueue:
    """One queue of this consumer. `next_offset`: where the next pull starts."""

    __slots__ = (
        "_changed",
        "_messages",
        "_taken",
        "consume_lock",
        "is_dropped",
        "is_locked",
        "is_pulled",
        "is_storing",
        "last_consume_ms",
        "last_lock_ms",
        "last_pull_ms",
        "lock_until",
        "max_offset",
        "next_offset",
        "outstanding",
        "queue",
        "size",
        "unlock_tries",
    )

    def __init__(self, queue: MessageQueue, next_offset: int) -> None:
        self.queue = queue
        self.next_offset = next_offset
        self.size = 0
        """Bytes of the records here, including those taken by handlers."""
        self.max_offset = -1
        self.outstanding = 0
        """How many calls were given to workers and have not returned."""
        self.is_dropped = False
        self.is_pulled = True
        """False: nothing more is pulled; waiting messages are still consumed."""
        self.is_storing = False
        """Whether the pull in flight also stores an offset."""
        self.is_locked = False
        self.lock_until = 0.0
        self.last_pull_ms = now_ms()
        self.last_consume_ms = now_ms()
        self.last_lock_ms = 0
        self.unlock_tries = 0
        self.consume_lock = asyncio.Lock()
        """Held while a handler of an orderly consumer runs."""
        self._messages: dict[int, ReceivedMessage] = {}
        self._taken: dict[int, ReceivedMessage] = {}
        self._changed: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<ProcessQueue {self.queue} {self.count} messages{' dropped' if self.is_dropped else ''}>"

    @property
    def count(self) -> int:
        """How many messages are here, including those taken by handlers."""
        return len(self._messages) + len(self._taken)

    @property
    def waiting(self) -> int:
        """How many messages wait for a handler."""
        return len(self._messages)

    @property
    def span(self) -> int:
        """The difference between the first and the last waiting offset."""
        return self.max_offset - next(iter(self._messages)) if self._messages else 0

    @property
    def size_mib(self) -> int:
        """The size in whole MiB."""
        return self.size // MIB

    def put(self, messages: Sequence[ReceivedMessage]) -> None:
        """Adds pulled messages, except those that were added before."""
        if messages[0].queue_offset <= self.max_offset:
            messages = [message for message in messages if message.queue_offset > self.max_offset]
            if not messages:
                return
        self._messages.update({message.queue_offset: message for message in messages})
        self.size += sum([message.size_bytes for message in messages])
        self.max_offset = messages[-1].queue_offset
        self.changed()

    def remove(self, messages: Iterable[ReceivedMessage]) -> int:
        """Removes consumed messages. Returns the offset that may be committed: of the first message left, or after the last; -1 if the queue was empty."""
        held = self._messages
        if not held:
            return -1
        for message in messages:
            if held.pop(message.queue_offset, None) is not None:
                self.size -= message.size_bytes
        self.last_consume_ms = now_ms()
        self.changed()
        return next(iter(held)) if held else self.max_offset + 1

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether a message waits or is taken by a handler."""
        return self._messages.get(message.queue_offset) is message or message.queue_offset in self._taken

    def first(self) -> ReceivedMessage | None:
        """Returns the waiting message with the smallest offset."""
        return next(iter(self._messages.values()), None)

    # -- orderly ----------------------------------------------------------------------------------------------------------

    def take(self, limit: int) -> list[ReceivedMessage]:
        """Takes the first waiting messages for a handler."""
        offsets = [offset for offset, _ in zip(self._messages, range(limit), strict=False)]
        taken = [self._messages.pop(offset) for offset in offsets]
        self._taken.update(zip(offsets, taken, strict=True))
        return taken

    def commit(self) -> int:
        """Removes all taken messages; returns the offset after them, -1 if there were none."""
        if not self._taken:
            return -1
        offset = max(self._taken) + 1
        self.size -= sum(message.size_bytes for message in self._taken.values())
        self._taken.clear()
        self.last_consume_ms = now_ms()
        self.changed()
        return offset

    def rollback(self, messages: Iterable[ReceivedMessage] | None = None) -> None:
        """Returns taken messages, or these of them, to the waiting ones, except those removed by `clear`."""
        taken = self._taken
        if messages is None:
            back = taken
        else:
            back = {at: taken[at] for one in messages if (at := one.queue_offset) in taken}
        self._messages = dict(sorted({**back, **self._messages}.items()))
        self._taken = {offset: one for offset, one in self._taken.items() if offset not in back}
        self.changed()

    def lock_confirmed(self) -> None:
        """Records that the broker confirmed our lock of the queue."""
        self.is_locked = True
        self.lock_until = time.monotonic() + LOCK_LIFETIME_S
        self.last_lock_ms = now_ms()

    @property
    def is_lock_valid(self) -> bool:
        """Whether the queue is locked and that was confirmed recently. May be called from any thread."""
        return self.is_locked and time.monotonic() < self.lock_until

    # -- waiting ----------------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Wakes the waiters: messages were added or removed, or the queue was dropped or locked."""
        if self._changed is not None:
            if not self._changed.done():
                self._changed.set_result(None)
            self._changed = None

    async def wait_changed(self, timeout_s: float | None = None) -> None:
        """Returns at the next change, or after the timeout."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        # Not wait_for: it would cancel the future, which others wait for too.
        await asyncio.wait([self._changed], timeout=timeout_s)

    def drop(self) -> None:
        """Ends consuming the queue."""
        self.is_dropped = True
        self.changed()

    def clear(self) -> None:
        """Removes all messages."""
        self._messages.clear()
        self._taken.clear()
        self.size = 0
        self.changed()

    def info(self, commit_offset: int) -> ProcessQueueInfo:
        """Returns the queue's state for administration tools."""
        waiting, taken = self._messages, self._taken
        return ProcessQueueInfo(
            commit_offset=commit_offset,
            cached_msg_min_offset=next(iter(waiting), 0),
            cached_msg_max_offset=self.max_offset if waiting else 0,
            cached_msg_count=len(waiting),
            cached_msg_size_in_mib=self.size_mib,
            transaction_msg_min_offset=min(taken, default=0),
            transaction_msg_max_offset=max(taken, default=0),
            transaction_msg_count=len(taken),
            locked=self.is_locked,
            try_unlock_times=self.unlock_tries,
            last_lock_timestamp=self.last_lock_ms,
            droped=self.is_dropped,
            last_pull_timestamp=self.last_pull_ms,
            last_consume_timestamp=self.last_consume_ms,
        )
