"""AckGate: responses to sends that wait until the log is flushed and replicated as the broker's settings require.

Replaces RocketMQ's two request queues with their swap-lists and locks: responses are ordered by the end of the log after their
append, so one comparison finds all that can be released. `flushed_offset` (SYNC_FLUSH) and
`push2slave_max_offset` (SYNC_MASTER) determine this; their writers ring the broker, which calls `release`.

Whoever adds a condition: `AckGate._outcome` decides, `broker.wakeups` lists the cells that are read again before the broker sleeps,
`store.ha.master` decides which slaves count. `Appender.pass_gate` and `broker.connections.hot_requests` ask the gate; messages with
WAIT=false do not wait.

If a deadline passes first, the message is stored nevertheless, and the response tells which of the two
was late (10 FLUSH_DISK_TIMEOUT, 12 FLUSH_SLAVE_TIMEOUT; as in RocketMQ the slave's status takes precedence).

With SYNC_FLUSH or SYNC_MASTER each batch of answers passes through here, so this is a hot module (types in the `.pxd`).
"""

from collections import deque
from collections.abc import Callable

import cython

from ipc.control_block import ControlBlock
from ipc.control_layout import FLUSHED_OFFSET, PUSH2SLAVE_MAX_OFFSET, SLAVE_COUNT
from store.config import SYNC_MASTER, StoreConfig
from store.status import PutMessageStatus

if not cython.compiled:
    from ipc.cells import load_cell

_FLUSHED_OFFSET = FLUSHED_OFFSET
_PUSH2SLAVE_MAX_OFFSET = PUSH2SLAVE_MAX_OFFSET
_SLAVE_COUNT = SLAVE_COUNT
_OK = PutMessageStatus.PUT_OK  # a member of an enum takes as long to find as an answer to release

Answer = Callable[[PutMessageStatus], None]


class _Waiting:
    """An answer that waits."""

    def __init__(self, end_offset: int, flush_deadline: float, slave_deadline: float, answer: Answer) -> None:
        self.end_offset = end_offset
        self.flush_deadline = flush_deadline
        self.slave_deadline = slave_deadline
        self.answer = answer


class AckGate:
    """Holds responses until the log is safe up to their `end_offset`."""

    def __init__(
        self,
        control: ControlBlock,
        clock: Callable[[], float],
        config: StoreConfig,
        on_wait: Callable[[], object] = lambda: None,
    ) -> None:
        """`clock` is the loop's time in seconds. `on_wait()` is called when a response begins to wait."""
        self._control = control
        self._clock = clock
        self._config = config
        self._sync_flush = config.is_sync_flush
        self._sync_slave = config.broker_role == SYNC_MASTER
        self._on_wait = on_wait
        self._waiting: deque[_Waiting] = deque()

    @property
    def is_open(self) -> bool:
        """Whether responses are sent at once: flush and replication are both asynchronous."""
        return not self._sync_flush and not self._sync_slave

    @property
    def is_for_slave_only(self) -> bool:
        """Whether responses wait for a slave, and not for a flush."""
        return self._sync_slave and not self._sync_flush

    @property
    def has_waiting(self) -> bool:
        """Whether responses are waiting."""
        return bool(self._waiting)

    def wait(self, end_offset: int, answer: Answer) -> None:
        """Calls `answer` with the outcome once the log is safe up to `end_offset`, perhaps at once. Offsets never decrease."""
        now, config = self._clock(), self._config
        flush_deadline, slave_deadline = now + config.sync_flush_timeout / 1000, now + config.slave_timeout / 1000
        waiting = _Waiting(end_offset, flush_deadline, slave_deadline, answer)
        if self._sync_slave and not self._has_usable_slave(end_offset):
            # It still waits for the disk, but the status is already known (store spec, 9.6).
            waiting.slave_deadline = 0.0
        if not self._waiting and self._try(waiting, now):
            return
        self._waiting.append(waiting)
        self._on_wait()

    def release(self) -> None:
        """Releases all responses that are ready or overdue, in order."""
        now = self._clock()
        waiting = self._waiting
        while waiting and self._try(waiting[0], now):
            waiting.popleft()

    def next_deadline(self) -> float | None:
        """The latest time at which `release` must be called, in the loop's time."""
        if not self._waiting:
            return None
        first = self._waiting[0]
        deadlines = []
        if self._sync_flush:
            deadlines.append(first.flush_deadline)
        if self._sync_slave and first.slave_deadline:
            deadlines.append(first.slave_deadline)
        return max(deadlines) if deadlines else 0.0

    def _try(self, waiting: _Waiting, now: float) -> bool:
        status = self._outcome(waiting, now)
        if status is None:
            return False
        waiting.answer(status)
        return True

    def _outcome(self, waiting: _Waiting, now: float) -> PutMessageStatus | None:
        """The status so far; None: it keeps waiting."""
        status = _OK
        cells = self._control.cells
        if self._sync_flush and load_cell(cells, _FLUSHED_OFFSET) < waiting.end_offset:
            if now < waiting.flush_deadline:
                return None
            status = PutMessageStatus.FLUSH_DISK_TIMEOUT
        if self._sync_slave:
            if waiting.slave_deadline == 0.0:
                return PutMessageStatus.SLAVE_NOT_AVAILABLE
            if load_cell(cells, _PUSH2SLAVE_MAX_OFFSET) < waiting.end_offset:
                if now < waiting.slave_deadline:
                    return None
                return PutMessageStatus.FLUSH_SLAVE_TIMEOUT
        return status

    def _has_usable_slave(self, end_offset: int) -> bool:
        cells = self._control.cells
        behind = end_offset - load_cell(cells, _PUSH2SLAVE_MAX_OFFSET)
        slaves = load_cell(cells, _SLAVE_COUNT)
        return slaves > 0 and behind < self._config.ha_slave_fallbehind_max
