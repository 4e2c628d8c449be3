"""The recover role: runs once, before all writers, and publishes the first value of every cell."""

from collections.abc import Sequence
from contextlib import ExitStack

from ipc.errors import QueueTableFull
from ipc.publish.recover import RecoverPublisher
from ipc.role_context import RoleContext
from store.config import StoreConfig
from store.paths import StorePaths
from store.recovery.discarded_records import Discarded
from store.recovery.queue_bounds import QueueBounds
from store.recovery.recover import recover

COUNTERS = ("discarded_records", "discarded_first_offset", "discarded_last_offset")

_ROWS_A_BEAT = 4096
_STEP_LIMIT_MS = 120_000  # limit: a step is a file; 1 GiB from a slow disk is a matter of ten seconds


def run(context: RoleContext, config: StoreConfig, paths: StorePaths) -> None:
    """Recovers the store and publishes what it found. Raises StoreError, one clear line, if the store cannot be opened."""
    counters = context.instance.counters(context.name, COUNTERS)

    def report(found: Discarded) -> None:
        # If recovery is killed before the wipe, it is restarted and finds them again.
        known = counters.read()
        for name, value in zip(COUNTERS, (found.records, found.first_offset, found.last_offset), strict=True):
            counters.add(name, max(0, value - known[name]))

    context.running()
    with ExitStack() as announced:

        def beat() -> None:
            announced.close()
            announced.enter_context(context.long_call("recovery", _STEP_LIMIT_MS))

        beat()
        recovered = recover(config, paths, beat, report)
    _publish_queues(context, recovered.queues)
    RecoverPublisher(context.control).first_values(
        min_offset=recovered.min_offset,
        wrote_offset=recovered.wrote_offset,
        allocated_offset=recovered.allocated_offset,
        reput_offset=recovered.reput_offset,
        wrote_timestamp=recovered.wrote_timestamp,
        reput_timestamp=recovered.reput_timestamp,
        index_timestamp=recovered.index_timestamp,
    )


def _publish_queues(context: RoleContext, queues: Sequence[QueueBounds]) -> None:
    """Fills the queue table, which may have rows of a recovery that was killed."""
    table = context.instance.queue_table_writer()
    table.is_recovered = False
    left = table.rows()
    for number, queue in enumerate(queues):
        if number % _ROWS_A_BEAT == 0:
            context.beat()
        left.pop((queue.topic, queue.queue_id), None)
        try:
            row = table.add(queue.topic, queue.queue_id)
        except QueueTableFull:
            break  # dispatch opens the others, and reports it
        table.update(row, queue.min_offset, queue.next_offset, queue.max_physical_offset)
    for row in left.values():
        table.free(row)
    table.is_recovered = True
