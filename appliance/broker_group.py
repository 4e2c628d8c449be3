"""A broker group: one broker of the appliance, from its configuration to its roles.

It owns what no other broker may use: the store with its lock, the shared memory, the roles. What serves all brokers (name server,
logger, control socket) belongs to the appliance. A group starts, recovers, fails, stops and restarts independently::

    take_store   folders, the store's lock, space
    check_ports
    make_memory  shared memory and bells
    start        the roles; recover is the first
    stop         the roles, in the order of the data flow
    close        removes `abort` after a clean stop; always removes shared memory and releases the lock

The shared memory stays mapped in the supervisor until the next start, so that the last offsets can still be shown.
"""

import contextlib
import enum
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from appliance import preflight
from appliance.child import Inheritance
from appliance.configuration_reader import Sources, read_changes
from appliance.effective_configuration import BrokerConfiguration
from appliance.errors import ApplianceError, ConfigurationError, PreflightFailed
from appliance.managed_role import ManagedRole
from appliance.role_supervisor import RoleSupervisor, Timeouts
from appliance.role_table import BrokerRole, filter_role_names
from ipc.control_block import ControlBlock
from ipc.errors import IpcError
from ipc.instance import Instance
from ipc.role_context import RoleContext
from ipc.store_lock import StoreLock

logger = logging.getLogger(__name__)


class GroupState(enum.Enum):
    """The state of a group, as shown by `headrace status`."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class BrokerGroup:
    """One broker under supervision."""

    def __init__(
        self,
        configuration: BrokerConfiguration,
        sources: Sources,
        roles: Callable[[BrokerConfiguration], Sequence[BrokerRole]],
    ) -> None:
        self.name = configuration.name
        self.label = configuration.label
        """The prefix of the names of its roles; empty for the only broker."""
        self.is_to_start_again = False
        self.error: ApplianceError | None = None
        """Why its last start failed."""
        self.was_clean = True
        """Whether its last stop was clean."""
        self.instance: Instance | None = None
        self.roles: RoleSupervisor[RoleContext, BrokerConfiguration] | None = None
        self._table = roles(configuration)
        self._current = CurrentConfiguration(configuration, sources)
        self._lock: StoreLock | None = None

    @property
    def configuration(self) -> BrokerConfiguration:
        """The configuration that its roles were last started with."""
        return self._current.last

    @property
    def is_open(self) -> bool:
        """Whether it holds the lock of its store."""
        return self._lock is not None

    @property
    def state(self) -> GroupState:
        """What it is doing."""
        if self.roles is None or not self.is_open:
            return GroupState.FAILED if self.error is not None else GroupState.STOPPED
        if self.roles.is_stopping:
            return GroupState.STOPPING
        return GroupState.RUNNING if self.roles.is_ready else GroupState.STARTING

    # ---- up

    def take_store(self) -> list[str]:
        """Make the folders, lock the store, check space. Returns warnings.

        Raises StoreLocked if another process holds the lock; PreflightFailed.
        """
        configuration = self.configuration
        paths = configuration.store_paths
        folders = (paths.root, paths.commit_log, paths.config)
        preflight.make_folders((configuration.paths.folder, *folders))
        preflight.check_links((*folders, paths.index, paths.root / "timer"))
        try:
            self._lock = StoreLock.take(paths.lock)
        except OSError as error:
            raise PreflightFailed(
                f"cannot lock the store {paths.lock}: {error.strerror}; check its owner and mode"
            ) from error
        try:
            warnings = preflight.check_space(paths.commit_log, configuration.store.mapped_file_size_commit_log)
        except BaseException:
            self.release_lock()
            raise
        self.error = None
        return warnings

    def check_ports(self) -> None:
        """Check that its ports are free. Raises PreflightFailed."""
        preflight.check_ports(self.configuration.host, self.configuration.listening_ports())

    def make_memory(self) -> None:
        """Create shared memory and bells, replacing those of the last start. Raises PreflightFailed."""
        if self.instance is not None:
            self.roles = None  # order: before the pages that it reads
            self.instance.close()
            self.instance = None
        configuration = self.configuration
        try:
            self.instance = Instance.create(
                configuration.store_paths.root,
                [role.name for role in self._table],
                configuration.appliance.queue_table_capacity,
            )
        except IpcError as error:
            raise PreflightFailed(str(error)) from error

    def start(
        self, inheritance: Inheritance[RoleContext], timeouts: Timeouts, earlier: dict[str, ManagedRole[Any, Any]]
    ) -> None:
        """Start the roles. `earlier`: the appliance's own roles, for which these may wait."""
        self.is_to_start_again = False
        control = None if self.instance is None else self.instance.control
        self.roles = RoleSupervisor(
            self.label, self._table, self._current.read, inheritance, timeouts, control, earlier
        )

    # ---- down

    def fail(self, error: ApplianceError) -> None:
        """Record why it cannot start. Stops running roles; without any, releases the store."""
        self.error = error
        self.is_to_start_again = False
        if self.roles is None:
            self.abandon()
        elif self.is_open:
            self.roles.stop()

    def close(self) -> None:
        """Called when its roles have ended: marks the store as clean if it is, and releases it."""
        if self.roles is not None and self.instance is not None:
            has_run_once = all(
                managed.has_run for managed in self.roles.managed_roles.values() if managed.role.runs_once
            )
            self.was_clean = self.roles.was_clean and has_run_once and is_store_whole(self.instance.control)
            if self.was_clean:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.configuration.store_paths.abort)
        self.abandon()

    def abandon(self) -> None:
        """Remove the names of shared memory and sockets, and release the lock, whatever the state of the store."""
        if self.is_open and self.instance is not None:
            self.instance.unlink()
            for name in filter_role_names(self.configuration):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.configuration.paths.filter_socket(name))
        self.release_lock()

    # ---- in children

    def release_lock(self) -> None:
        """Release the store's lock in this process. Children that inherited it keep it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def release(self) -> None:
        """In a child of another group: release everything of this group."""
        self.release_lock()
        if self.instance is not None:
            self.instance.close()


class CurrentConfiguration:
    """The settings of a role that starts now: only options that may change at run time are read again from broker.conf."""

    def __init__(self, first: BrokerConfiguration, sources: Sources) -> None:
        self.last = first
        self._sources = sources
        self._seen = self._look()

    def read(self) -> BrokerConfiguration:
        """The configuration for a role that starts now."""
        now = self._look()
        if now != self._seen:
            self._seen = now
            try:
                self.last = read_changes(self.last, self._sources)
            except ConfigurationError as error:
                logger.warning("options not reloaded error=%r", str(error))
        return self.last

    def _look(self) -> tuple[int, int] | None:
        path = self.last.broker_conf
        if path is None:
            return None
        try:
            status = os.stat(path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino


def is_store_whole(control: ControlBlock) -> bool:
    """Whether everything written is durable and in both indexes, and no error flag is set.

    # compat: otherwise `abort` is kept, and the next start does a full recovery (store spec, 7.7).
    """
    wrote = control.wrote_offset
    return (
        control.flushed_offset == wrote
        and control.reput_offset == wrote
        and not (control.flag_log_error or control.flag_queue_error or control.flag_index_error)
    )
