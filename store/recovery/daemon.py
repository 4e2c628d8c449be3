"""The recover role: runs once, before all writers, and publishes the first value of every cell."""

from contextlib import ExitStack

from ipc.publish.recover import RecoverPublisher
from ipc.role_context import RoleContext
from store.config import StoreConfig
from store.paths import StorePaths
from store.recovery.discarded_records import Discarded
from store.recovery.recover import recover

COUNTERS = ("discarded_records", "discarded_first_offset", "discarded_last_offset")

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
    RecoverPublisher(context.control).first_values(
        min_offset=recovered.min_offset,
        wrote_offset=recovered.wrote_offset,
        allocated_offset=recovered.allocated_offset,
        reput_offset=recovered.reput_offset,
        wrote_timestamp=recovered.wrote_timestamp,
        reput_timestamp=recovered.reput_timestamp,
        index_timestamp=recovered.index_timestamp,
    )
