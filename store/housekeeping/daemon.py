"""The housekeeper role's loop: reserve first, because the log writer may be waiting; then delete, then sync the indexes.

Only reserving files is needed to accept the next message, so everything else is done one file at a time,
with a check of the reserves in between.
"""

from ipc.role_context import RoleContext
from store.config import StoreConfig
from store.followed_options import FollowedOptions
from store.housekeeping.cleaner import LogCleaner
from store.housekeeping.forced_deletions import COUNTERS
from store.housekeeping.index_sync import IndexSync
from store.housekeeping.reserver import LogReserver
from store.paths import StorePaths

_LOG_WRITERS = ("broker", "ha")
_RETRY_MS = 1000  # limit: how soon a reservation is retried on a full disk
_RESERVE_LIMIT_MS = 120_000  # limit: 2 ms per GiB, but a file system without fallocate writes every block
_UNLINK_LIMIT_MS = 60_000  # limit: unlinking 1 GiB takes 0.4 s on a good disk


def run(context: RoleContext, config: StoreConfig, paths: StorePaths, *, is_log_copied: bool) -> None:
    """Runs until the role is stopped; then leaves the files as RocketMQ does. `is_log_copied`: a master sends the log.

    Raises StoreError if the CommitLog's directory cannot be used, SyncFailed at the end if an index could not be synced.
    """
    keeper = Housekeeper(context, config, paths, is_log_copied=is_log_copied)
    keeper.begin()
    context.running()
    while not context.take_stop_order():
        keeper.work()
        keeper.wait()
    keeper.finish()


class Housekeeper:
    """One round of the loop."""

    def __init__(self, context: RoleContext, config: StoreConfig, paths: StorePaths, *, is_log_copied: bool) -> None:
        self._context = context
        self._bells = context.instance.bells
        self._options = FollowedOptions(context, config)
        self._reserver = LogReserver(context.control, config, paths, is_log_copied=is_log_copied)
        counters = context.instance.counters(context.name, COUNTERS)
        self._cleaner = LogCleaner(context.control, config, paths, counters)
        self._index_sync = IndexSync(context, config, paths)

    def begin(self) -> None:
        """Continues the work of a predecessor and reserves the files that the log writer needs."""
        self._reserver.take_over()
        self._reserve()

    def work(self) -> None:
        """One round of everything that is due."""
        self._options.follow()
        self._reserve()
        out_of_space = self._reserver.is_out_of_space
        if self._cleaner.look_at_disk(out_of_space):
            self._bells["broker"].ring()
        if self._cleaner.choose(out_of_space):
            self._bells["broker"].ring()
        with self._context.long_call("deleting a CommitLog file", _UNLINK_LIMIT_MS):
            if self._cleaner.try_delete_next():
                for role in ("dispatch", "broker", "flush", "ha"):
                    self._bells[role].ring()  # each releases the file
        self._index_sync.sync_if_due(between=self._reserve)

    def wait(self) -> None:
        """Waits until a file is needed, an operator requests a deletion, or periodic work is due."""
        due_ms = min(self._cleaner.next_work_ms(), self._index_sync.next_work_ms())
        if self._reserver.is_out_of_space:
            self._context.nap(min(due_ms, _RETRY_MS))
        else:
            self._context.wait(self._is_asked, due_ms)

    def finish(self) -> None:
        """Syncs everything, writes the checkpoint, deletes unused reserved files."""
        if self._log_writers_are_gone():
            self._reserver.delete_unused()
        self._index_sync.sync_all()

    def _is_asked(self) -> bool:
        if self._options.have_changed():
            return True
        return self._reserver.is_short() or self._cleaner.is_called

    def _reserve(self) -> None:
        while self._reserver.is_short():
            with self._context.long_call("reserving a CommitLog file", _RESERVE_LIMIT_MS):
                if not self._reserver.try_reserve_next():
                    return
            for role in ("broker", "flush", "ha"):
                self._bells[role].ring()

    def _log_writers_are_gone(self) -> bool:
        """Not if only this role is restarted: the writer may have opened the file."""
        health = self._context.instance.health.read()
        return all(health[role].pid == 0 and health[role].state == "stopped" for role in _LOG_WRITERS if role in health)
