"""The dispatch role's loop: wait for `wrote_offset`, dispatch, publish, ring the broker.

Cleaning waits for a moment without records. The role ends when it is told to stop and has caught up with the log, which nobody
writes any more then; it ends as failed if it cannot catch up, so that the store counts as not cleanly closed.
"""

import logging

from ipc.role_context import RoleContext
from store.config import StoreConfig
from store.paths import StorePaths
from store.reput.reput import COUNTERS, Reput

_log = logging.getLogger(__name__)

_OPEN_LIMIT_MS = 600_000  # limit: 50,000 queues take some seconds, on a cold disk minutes
_WAIT_MS = 1000  # limit: a bell is rung for all that comes; this is the net below it
_RETRY_MS = 1000  # compat: RocketMQ tries again after a second


def run(context: RoleContext, config: StoreConfig, paths: StorePaths) -> None:
    """Builds ConsumeQueues and IndexFiles until the role is told to stop and has caught up.

    Raises StoreError if the files on disk are not the store's, or at the end if some records could not be dispatched.
    """
    context.instance.counters(context.name, COUNTERS)
    reput = Reput(context.instance, context.counters, config, paths)
    with context.long_call("taking over the ConsumeQueues", _OPEN_LIMIT_MS):
        reput.open()
    context.running()
    try:
        _loop(context, reput)
    finally:
        reput.close()


def _loop(context: RoleContext, reput: Reput) -> None:
    while True:
        is_stopping = context.stopping  # order: before the batch, so that the last look comes after the last record
        has_moved = reput.try_batch()
        if reput.failure is not None:
            if is_stopping:
                raise reput.failure
            context.nap(_RETRY_MS)
        elif has_moved:
            context.beat()
        elif is_stopping:
            return
        elif reput.cleaning.is_due:
            _clean(context, reput)
        else:
            context.wait(lambda: reput.has_records or reput.cleaning.is_due, _WAIT_MS)


def _clean(context: RoleContext, reput: Reput) -> None:
    try:
        reput.cleaning.step()
    except OSError as error:
        _log.error("could not clean, trying again: error=%s", error)
        context.nap(_RETRY_MS)
    context.beat()
