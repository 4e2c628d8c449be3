"""Paths of an appliance under its data folder DIR.

::

    DIR/lock           held by the supervisor as long as it runs
    DIR/namesrv        the name server's kvConfig.json
    DIR/logs           headrace.log and its older files; stacks.log, where a silent role leaves its stacks
    DIR/tls            the self-signed certificate, mode 0600, from the first TLS connection on, if no certificate is configured
    DIR/console        the console's accounts, audit log and history, mode 0600
    DIR/exports        tables of exports that were started in the console (exportFolder)
    DIR/control.sock   control socket, mode 0600

and for its broker, or under DIR/NAME for each of several brokers:

::

    DIR/store          RocketMQ's storePathRootDir: commitlog, consumequeue, index, config, checkpoint, abort, lock
    DIR/filter-N.sock  where the process of a filter function waits for the broker, mode 0600
"""

import os

from msgspec import Struct


class BrokerPaths(Struct, frozen=True):
    """The folder of one broker, and its store. Only computes paths."""

    folder: str
    store: str

    def filter_socket(self, role: str) -> str:
        """Where a filter role waits for the broker's call."""
        return os.path.join(self.folder, f"{role}.sock")

    @property
    def filter_report(self) -> str:
        """The broker's report about filter functions: `store.filter.python.functions.REPORT`, which is slow to import."""
        return os.path.join(self.store, "config", "pythonFilters.json")


class AppliancePaths(Struct, frozen=True):
    """The folders and files of one appliance. Only computes paths."""

    data: str

    def broker(self, name: str = "", store: str = "") -> BrokerPaths:
        """The paths of one of several brokers; without a name those of the only one. `store`: its store, if it is elsewhere."""
        folder = os.path.join(self.data, name) if name else self.data
        return BrokerPaths(folder, os.path.join(self.data, store) if store else os.path.join(folder, "store"))

    @property
    def lock(self) -> str:
        """The lock file, which prevents a second supervisor on this data folder."""
        return os.path.join(self.data, "lock")

    @property
    def nameserver(self) -> str:
        """The name server's own folder."""
        return os.path.join(self.data, "namesrv")

    @property
    def self_made_certificate(self) -> str:
        """The certificate and key that servers make themselves if none is configured."""
        return os.path.join(self.data, "tls", "self-made.pem")

    @property
    def console(self) -> str:
        """The console's own folder."""
        return os.path.join(self.data, "console")

    @property
    def exports(self) -> str:
        """Where exports that were started in the console write, unless exportFolder names another folder."""
        return os.path.join(self.data, "exports")

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
        """Where a process on SIGABRT writes the stacks of its threads."""
        return os.path.join(self.logs, "stacks.log")

    @property
    def control_socket(self) -> str:
        """The supervisor's socket. A path too long for a socket address is reached through its open folder."""
        return os.path.join(self.data, "control.sock")
