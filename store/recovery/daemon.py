"""The recover role: runs once, alone, before the writers, and ends. It gives every cell its first value."""

from contextlib import ExitStack

from ipc.publish.recover import RecoverPublisher
from ipc.role_context import RoleContext
from store.config import StoreConfig
from store.paths import StorePaths
from store.recovery.recover import recover

_STEP_LIMIT_MS = 120_000  # limit: a step is a file; 1 GiB from a slow disk is a matter of ten seconds


def run(context: RoleContext, config: StoreConfig, paths: StorePaths) -> None:
    """Recovers the store and publishes what it found. Raises StoreError, one clear line, if the store cannot be opened."""
    context.running()
    with ExitStack() as announced:

        def beat() -> None:
            announced.close()
            announced.enter_context(context.long_call("recovery", _STEP_LIMIT_MS))

        beat()
        recovered = recover(config, paths, beat)
    RecoverPublisher(context.control).first_values(
        min_offset=recovered.min_offset,
        wrote_offset=recovered.wrote_offset,
        allocated_offset=recovered.allocated_offset,
        reput_offset=recovered.reput_offset,
        wrote_timestamp=recovered.wrote_timestamp,
        reput_timestamp=recovered.reput_timestamp,
        index_timestamp=recovered.index_timestamp,
    )
