"""The housekeeper role's loop: reserve first, because the log's writer may be waiting; then delete, then sync the indexes.

Nothing here is needed for the next message to be accepted but the reserving, so everything else is done a file at a time,
with a look at the reserves in between.
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
_RETRY_MS = 1000  # limit: how soon a full disk is tried again
_RESERVE_LIMIT_MS = 120_000  # limit: 2 ms a GiB, but a file system without fallocate writes every block
_UNLINK_LIMIT_MS = 60_000  # limit: unlinking 1 GiB takes 0.4 s on a good disk


def run(context: RoleContext, config: StoreConfig, paths: StorePaths, *, is_log_copied: bool) -> None:
    """Keeps house until the role is told to stop; then leaves the files as RocketMQ would find its own. `is_log_copied`: a master sends the log.

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
    """What the loop does in one round."""

    def __init__(self, context: RoleContext, config: StoreConfig, paths: StorePaths, *, is_log_copied: bool) -> None:
        self._context = context
        self._bells = context.instance.bells
        self._options = FollowedOptions(context, config)
        self._reserver = LogReserver(context.control, config, paths, is_log_copied=is_log_copied)
        counters = context.instance.counters(context.name, COUNTERS)
        self._cleaner = LogCleaner(context.control, config, paths, counters)
        self._index_sync = IndexSync(context, config, paths)

    def begin(self) -> None:
        """Takes over from a predecessor and reserves what the log's writer needs to begin."""
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
        """Until a file is wanted, an operator asks, or something is due by the clock."""
        due_ms = min(self._cleaner.next_work_ms(), self._index_sync.next_work_ms())
        if self._reserver.is_out_of_space:
            self._context.nap(min(due_ms, _RETRY_MS))
        else:
            self._context.wait(self._is_asked, due_ms)

    def finish(self) -> None:
        """Syncs everything, writes the checkpoint, deletes what was reserved for nothing."""
        if self._log_writers_are_gone():
            self._reserver.delete_unused()
        self._index_sync.sync_all()

    def _is_asked(self) -> bool:
        if self._options.have_changed:
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
        """Not so when this role alone is restarted: a file that the writer may have opened must stay."""
        health = self._context.instance.health.read()
        return all(health[role].pid == 0 and health[role].state == "stopped" for role in _LOG_WRITERS if role in health)
