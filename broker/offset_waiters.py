"""OffsetWaiters: all that waits for another process's offset: held pulls, responses at the ack gate, appends without a file.

One place knows whether anything waits, which is when the broker wants to be rung. When the broker is rung, all of them are tried again.

With SYNC_FLUSH or SYNC_MASTER each batch of answers passes through here, so this is a hot module (types in the `.pxd`).
"""

from collections.abc import Callable, Collection

from broker.appending.ack_gate import AckGate
from broker.appending.appender import Appender
from broker.pulling.held_pulls import HeldPulls, QueueKey
from broker.wakeups import Waiting, Wakeups
from ipc.queue_table import QueueTable
from ipc.role_context import RoleContext


class OffsetWaiters:
    """`ask` is called when something begins to wait."""

    def __init__(self, context: RoleContext, queue_table: QueueTable) -> None:
        self._changed_rows = context.instance.changed_rows_reader()
        self._queue_keys = _QueueKeys(queue_table)
        self._gate: AckGate | None = None
        self._without_file: Collection[object] = ()
        self._put_again: Callable[[], None] = lambda: None
        instance = context.instance
        waiting = (
            Waiting(instance.bells["broker"], self._is_anyone_else_waiting),
            Waiting(instance.pull_bell(), self._is_pull_held, self._end_nap),
        )
        self._control = context.control
        self._dispatch_bell = instance.bells["dispatch"]
        self.wakeups = Wakeups(waiting, context.control, self._look)
        self.ask = self.wakeups.ask
        self.held = HeldPulls(self.ask)

    def join(self, appender: Appender) -> None:
        """Its puts wait too: for a file, and at its gate."""
        self._gate = appender.gate
        self._without_file = appender.waiting_for_file
        self._put_again = appender.file_reserved

    def _is_pull_held(self) -> bool:
        return self.held.size > 0

    def _end_nap(self) -> None:
        """Dispatch naps while no pull is held: records that were appended meanwhile are dispatched now."""
        if self._control.reput_offset < self._control.wrote_offset:
            self._dispatch_bell.ring()

    def _is_anyone_else_waiting(self) -> bool:
        return (self._gate is not None and self._gate.has_waiting) or len(self._without_file) > 0

    def _look(self) -> None:
        if self._gate is not None:
            self._gate.release()
        if self._without_file:
            self._put_again()
        if self.held.size:
            rows = self._changed_rows.take()
            self.held.arrived(self.held.queues() if rows is None else self._queue_keys.of(rows))


class _QueueKeys:
    """Maps rows of the queue table to queues."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table
        self._keys: dict[int, QueueKey] = {}
        self._seen_changes = -1

    def of(self, rows: list[int]) -> list[QueueKey]:
        """The queues of these rows, each once; rows freed meanwhile are skipped."""
        if self._table.changes != self._seen_changes:
            self._seen_changes = self._table.changes
            self._keys = {row: (topic.decode(), queue_id) for row, topic, queue_id, *_ in self._table.rows()}
        return [self._keys[row] for row in dict.fromkeys(rows) if row in self._keys]
