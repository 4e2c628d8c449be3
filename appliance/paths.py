"""Where an appliance keeps what, under its data folder DIR.

::

    DIR/store          RocketMQ's storePathRootDir: commitlog, consumequeue, index, config, checkpoint, abort, lock
    DIR/namesrv        the name server's kvConfig.json
    DIR/logs           headrace.log and its older files; stacks.log, where a silent role leaves its stacks
    DIR/control.sock   the control socket, mode 0600
    DIR/filter-N.sock  where the process of a filter function waits for the broker, mode 0600
"""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AppliancePaths:
    """The folders and files of one appliance. Nothing is made or looked at here."""

    data: str

    @property
    def store(self) -> str:
        """The store's root, where Apache's broker has storePathRootDir."""
        return os.path.join(self.data, "store")

    @property
    def nameserver(self) -> str:
        """The name server's own folder."""
        return os.path.join(self.data, "namesrv")

    @property
    def logs(self) -> str:
        """The folder of the log files."""
        return os.path.join(self.data, "logs")

    @property
    def log_file(self) -> str:
        """The newest log file, of all processes."""
        return os.path.join(self.logs, "headrace.log")

    @property
    def stacks_file(self) -> str:
        """Where a process that is told to abort writes what each of its threads was doing."""
        return os.path.join(self.logs, "stacks.log")

    @property
    def control_socket(self) -> str:
        """Where the supervisor listens. Longer than a socket address may be, it is reached through its folder."""
        return os.path.join(self.data, "control.sock")

    def filter_socket(self, role: str) -> str:
        """Where a filter role waits for the broker's call."""
        return os.path.join(self.data, f"{role}.sock")

    @property
    def filter_report(self) -> str:
        """Where the broker says how filter functions fare: `store.filter.python.functions.REPORT`, which is not imported for its name alone."""
        return os.path.join(self.store, "config", "pythonFilters.json")
