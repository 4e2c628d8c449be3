"""ProcessQueue: the messages of one queue between being pulled and being done with (client spec 3.5).

    pulled ──put──► waiting ──────────────────────────► remove ──► the smallest offset that is not done yet: what may be committed
                      │  ▲
                 take │  │ rollback              (orderly consumers only)
                      ▼  │
                   in the handler's hands ──commit──► the offset behind them

Offsets are put in ascending order, so a dict keeps them sorted. A queue that was lost is dropped: nothing of it is consumed any more, and what
handlers still do with its messages counts for nothing. Belongs to the loop; handlers' threads only read `is_dropped` and the lock's time.
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
"""How long a broker's lock is trusted after it was last confirmed; at the broker it lasts twice as long."""
MIB: Final = 1024 * 1024


class ProcessQueue:
    """One queue that the consumer holds. `next_offset`: where the next pull begins."""

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
        """Bytes of the records held, those in handlers' hands included."""
        self.max_offset = -1
        self.outstanding = 0
        """Pieces of work that were given to handlers and have not come back."""
        self.is_dropped = False
        self.is_pulled = True
        """False: nothing more is pulled; what is here is consumed all the same."""
        self.is_storing = False
        """Whether what its pull is waiting for stores an offset by the way."""
        self.is_locked = False
        self.lock_until = 0.0
        self.last_pull_ms = now_ms()
        self.last_consume_ms = now_ms()
        self.last_lock_ms = 0
        self.unlock_tries = 0
        self.consume_lock = asyncio.Lock()
        """Held while a handler of an orderly consumer works on the queue."""
        self._messages: dict[int, ReceivedMessage] = {}
        self._taken: dict[int, ReceivedMessage] = {}
        self._changed: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<ProcessQueue {self.queue} {self.count} messages{' dropped' if self.is_dropped else ''}>"

    @property
    def count(self) -> int:
        """How many messages are held, those in handlers' hands included."""
        return len(self._messages) + len(self._taken)

    @property
    def waiting(self) -> int:
        """How many messages are held and not taken."""
        return len(self._messages)

    @property
    def span(self) -> int:
        """From the first to the last offset waiting."""
        return self.max_offset - next(iter(self._messages)) if self._messages else 0

    @property
    def size_mib(self) -> int:
        """Whole MiB held."""
        return self.size // MIB

    def put(self, messages: Sequence[ReceivedMessage]) -> None:
        """Adds what was pulled. What the queue has had already is left out."""
        if messages[0].queue_offset <= self.max_offset:
            messages = [message for message in messages if message.queue_offset > self.max_offset]
            if not messages:
                return
        self._messages.update({message.queue_offset: message for message in messages})
        self.size += sum([message.size_bytes for message in messages])
        self.max_offset = messages[-1].queue_offset
        self.changed()

    def remove(self, messages: Iterable[ReceivedMessage]) -> int:
        """Takes out what is done with. The offset that may be committed now: of the first message left, or behind the last; -1 if nothing was there."""
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
        """Whether a message is still waiting, or in a handler's hands."""
        return self._messages.get(message.queue_offset) is message or message.queue_offset in self._taken

    def first(self) -> ReceivedMessage | None:
        """The message with the smallest offset waiting."""
        return next(iter(self._messages.values()), None)

    # -- orderly ----------------------------------------------------------------------------------------------------------

    def take(self, limit: int) -> list[ReceivedMessage]:
        """The first messages waiting; from now on they are in a handler's hands."""
        offsets = [offset for offset, _ in zip(self._messages, range(limit), strict=False)]
        taken = [self._messages.pop(offset) for offset in offsets]
        self._taken.update(zip(offsets, taken, strict=True))
        return taken

    def commit(self) -> int:
        """Done with all that was taken: the offset behind it, -1 if nothing was."""
        if not self._taken:
            return -1
        offset = max(self._taken) + 1
        self.size -= sum(message.size_bytes for message in self._taken.values())
        self._taken.clear()
        self.last_consume_ms = now_ms()
        self.changed()
        return offset

    def rollback(self, messages: Iterable[ReceivedMessage] | None = None) -> None:
        """Puts back what was taken, or these of it, to be consumed again; not what `clear` has made forgotten meanwhile."""
        taken = self._taken
        if messages is None:
            back = taken
        else:
            back = {at: taken[at] for one in messages if (at := one.queue_offset) in taken}
        self._messages = dict(sorted({**back, **self._messages}.items()))
        self._taken = {offset: one for offset, one in self._taken.items() if offset not in back}
        self.changed()

    def lock_confirmed(self) -> None:
        """The broker says that the queue is locked for us."""
        self.is_locked = True
        self.lock_until = time.monotonic() + LOCK_LIFETIME_S
        self.last_lock_ms = now_ms()

    @property
    def is_lock_valid(self) -> bool:
        """Whether the queue is locked, and that was confirmed lately. May be asked from any thread."""
        return self.is_locked and time.monotonic() < self.lock_until

    # -- waiting ----------------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Wakes who waits for a change: messages came or went, the queue was dropped or locked."""
        if self._changed is not None:
            if not self._changed.done():
                self._changed.set_result(None)
            self._changed = None

    async def wait_changed(self, timeout_s: float | None = None) -> None:
        """Returns at the next change, or when the time is over."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        # Not wait_for: it would cancel the future that others wait for as well.
        await asyncio.wait([self._changed], timeout=timeout_s)

    def drop(self) -> None:
        """Nothing of the queue is consumed from now on."""
        self.is_dropped = True
        self.changed()

    def clear(self) -> None:
        """Forgets all messages."""
        self._messages.clear()
        self._taken.clear()
        self.size = 0
        self.changed()

    def info(self, commit_offset: int) -> ProcessQueueInfo:
        """What the queue's consumer tells about it."""
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
