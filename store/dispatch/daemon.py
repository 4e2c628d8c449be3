"""The dispatch role's loop: wait for `wrote_offset`, dispatch, publish, ring the broker.

While messages arrive and no pull is held for them, the role naps for fixed intervals
instead of being rung: this saves the broker a system call per batch, and batches are larger. The broker ends a nap when a pull is held and there are records. Cleaning is done while there
are no records, and occasionally in between if there always are. The role ends when it is told to stop and has caught up with the log, which no
process writes any more; it fails if it cannot catch up, so that the store counts as not cleanly closed.
"""

import logging

from ipc.health_row import monotonic_ms
from ipc.role_context import RoleContext
from store.config import StoreConfig
from store.dispatch.dispatcher import COUNTERS, Dispatcher
from store.dispatch.unusual_entries import BitMap, no_bit_map
from store.errors import StoreError
from store.paths import StorePaths

logger = logging.getLogger(__name__)

_OPEN_LIMIT_MS = 600_000  # limit: 50,000 queues take seconds, on a cold disk minutes
_WAIT_MS = 1000  # limit: a bell is rung for every change; this timeout is only the safety net
_NAP_MS = 5  # limit: how long a message may be undispatched while no pull waits for it
_BUSY_MS = 20  # limit: within this time after a record another one is likely
_CLEANING_MS = 50  # limit: a step of cleaning takes a few milliseconds, and held pulls wait for it
_RETRY_MS = 1000  # compat: RocketMQ retries after a second


def run(
    context: RoleContext,
    config: StoreConfig,
    paths: StorePaths,
    bit_map: BitMap = no_bit_map,
    *,
    is_log_copied: bool,
) -> None:
    """Builds ConsumeQueues and IndexFiles until the role is told to stop and has caught up. For the parameters see `Dispatcher`.

    Raises StoreError if the files on disk are not the store's, or at the end if some records could not be dispatched.
    """
    context.instance.counters(context.name, COUNTERS)
    dispatcher = Dispatcher(context.instance, context.counters, config, paths, bit_map, is_log_copied=is_log_copied)
    with context.long_call("opening ConsumeQueues", _OPEN_LIMIT_MS):
        dispatcher.open()
    context.running()
    try:
        _loop(context, dispatcher)
    finally:
        dispatcher.close()


def _loop(context: RoleContext, dispatcher: Dispatcher) -> None:
    control = context.control
    busy_until_ms = next_cleaning_ms = 0
    while True:
        dispatcher.release_deleted()
        # order: before the batch, so that the last check follows the last record
        is_stopping = context.take_stop_order()
        has_moved = dispatcher.try_batch()
        now_ms = monotonic_ms()
        if has_moved:
            busy_until_ms = now_ms + _BUSY_MS
        if dispatcher.failure is not None:
            if is_stopping:
                raise dispatcher.failure
            context.nap(_RETRY_MS)
        elif has_moved and (is_stopping or dispatcher.has_records):
            context.beat()
            if now_ms >= next_cleaning_ms and dispatcher.cleaning.is_due:
                next_cleaning_ms = now_ms + _CLEANING_MS
                _clean(context, dispatcher)
        elif is_stopping:
            return
        elif dispatcher.cleaning.is_due:
            _clean(context, dispatcher)
        elif now_ms < busy_until_ms and not control.asleep_pulls:
            context.nap_unless_urgent(lambda: dispatcher.has_records, _NAP_MS)
        else:
            context.wait(lambda: dispatcher.has_records or dispatcher.cleaning.is_due, _WAIT_MS)


def _clean(context: RoleContext, dispatcher: Dispatcher) -> None:
    try:
        dispatcher.cleaning.step()
    except (OSError, StoreError) as error:
        logger.error("queue and index cleanup failed, will retry error=%r", str(error))
        context.nap(_RETRY_MS)
    context.beat()
