"""From a configuration to a running appliance and back to nothing: what is made before the first fork, and put away last.

In this order: the limits of this process; the folders; the store's lock; the checks of `preflight`; shared memory and bells;
the log channel; the control socket; then the supervisor's loop. Put away in the opposite order. `abort` goes only if all
went well; shared memory goes in any case; what a killed predecessor left is cleared by the next start, under the lock.
"""

import contextlib
import gc
import logging
import os
import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from appliance import preflight, process
from appliance.child import Inheritance
from appliance.configuration import Configuration, Sources, read_changes, read_configuration
from appliance.control_requests import ControlRequests
from appliance.control_server import ControlServer
from appliance.errors import ConfigurationError, PreflightFailed
from appliance.log_channel import LogChannel, log_to
from appliance.role import Role
from appliance.role_table import RoleSettings, filter_role_names, role_table
from appliance.service_manager import notify
from appliance.signal_pipe import SignalPipe
from appliance.supervisor import SIGNALS, Result, Supervisor, Timeouts
from ipc.control_block import ControlBlock
from ipc.control_socket import ask
from ipc.errors import IpcError, StoreLocked
from ipc.instance import Instance
from ipc.store_lock import StoreLock

_LOCK_RETRY_S: Final = 0.1

logger = logging.getLogger(__name__)

Roles = Sequence[Role[RoleSettings]]


@dataclass(frozen=True, slots=True)
class Announcements:
    """How the appliance speaks to whoever started it: `say` a line, `warn` one."""

    say: Callable[[str], None]
    warn: Callable[[str], None]


def run_appliance(sources: Sources, announce: Announcements, roles: Roles | None = None) -> Result:
    """Run until told to stop. Raises ApplianceError when it cannot begin; `roles` is the role table unless a test brings one."""
    started = time.monotonic()
    configuration = read_configuration(sources)
    process.fill_standard_streams()
    process.hide_files_from_others()
    for warning in configuration.warnings:
        announce.warn(warning)
    process.set_title("supervisor")
    process.keep_large_blocks()
    open_files = process.raise_open_files_limit()
    with contextlib.ExitStack() as stack:
        paths, store_paths = configuration.paths, configuration.store_paths
        folders = (store_paths.root, store_paths.commit_log, store_paths.config, paths.nameserver, paths.logs)
        preflight.make_folders((paths.data, *folders))
        preflight.check_links((*folders, store_paths.index, store_paths.root / "timer"))
        lock = _take_lock(configuration, announce)
        stack.callback(lock.close)
        for warning in (
            *preflight.check_open_files(open_files),
            *preflight.check_space(store_paths.commit_log, configuration.store.mapped_file_size_commit_log),
        ):
            announce.warn(warning)
        preflight.check_ports(configuration.host, listening_ports(configuration))
        # From here on a signal is noted, and acted upon when the loop begins. Before, it ends us: nothing is there yet.
        signals = SignalPipe(SIGNALS)
        stack.callback(signals.close)
        table = role_table(configuration) if roles is None else roles
        instance = _make_instance(configuration, table)
        stack.callback(instance.unlink)
        channel = LogChannel()
        stack.callback(channel.close)
        log_to(channel, "supervisor", configuration.appliance.log_level)
        logger.info("appliance starts: pid=%d data=%s", os.getpid(), paths.data)
        current = CurrentConfiguration(configuration, sources)
        return _supervise(
            configuration, current.read, announce, table, _Made(lock, signals, instance, channel), started
        )


@dataclass(frozen=True, slots=True)
class _Made:
    lock: StoreLock
    signals: SignalPipe
    instance: Instance
    channel: LogChannel


class CurrentConfiguration:
    """What a role is told when it starts: options changed at run time are taken over from broker.conf, nothing else is."""

    def __init__(self, first: Configuration, sources: Sources) -> None:
        self._configuration = first
        self._sources = sources
        self._seen = self._look()

    def read(self) -> Configuration:
        """The configuration for a role that starts now."""
        now = self._look()
        if now != self._seen:
            self._seen = now
            try:
                self._configuration = read_changes(self._configuration, self._sources)
            except ConfigurationError as error:
                logger.warning("kept the options as they were: %s", error)
        return self._configuration

    def _look(self) -> tuple[int, int] | None:
        path = self._configuration.broker_conf
        if path is None:
            return None
        try:
            status = os.stat(path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino


def listening_ports(configuration: Configuration) -> dict[int, str]:
    """Every port that the roles of this configuration listen on, and what for."""
    port = configuration.broker.listen_port
    ports = {port: "broker", port - 2: "VIP channel"}
    if configuration.appliance.ha_enable and not configuration.store.is_slave:
        ports[port + 1] = "HA"
    if configuration.appliance.nameserver_enable:
        ports = {configuration.appliance.nameserver_port: "name server", **ports}
    return ports


def _take_lock(configuration: Configuration, announce: Announcements) -> StoreLock:
    """The store's lock. Children of a supervisor that died still drain with it in hand: waits for these, for a while."""
    deadline = time.monotonic() + configuration.appliance.store_lock_wait / 1000
    has_said = False
    while True:
        try:
            return StoreLock.take(configuration.store_paths.lock)
        except StoreLocked as error:
            pids = ", ".join(map(str, error.pids)) or "unknown"
            if _is_another_running(configuration):
                raise PreflightFailed(
                    f"data folder {configuration.paths.data} is in use by a running appliance (pids {pids}); "
                    f"stop it with: headrace stop --data {configuration.paths.data}"
                ) from error
            if time.monotonic() >= deadline:
                raise PreflightFailed(
                    f"data folder {configuration.paths.data} is in use: pids {pids} hold {error.path}; "
                    f"stop them, then start again"
                ) from error
            if not has_said:
                has_said = True
                announce.warn(f"waiting for pids {pids} to let go of the store, at most until storeLockWait is over")
            time.sleep(_LOCK_RETRY_S)
        except OSError as error:
            raise PreflightFailed(f"store lock: {configuration.store_paths.lock}: {error.strerror}") from error


def _is_another_running(configuration: Configuration) -> bool:
    try:
        return bool(ask(configuration.paths.control_socket, {"command": "status"}, timeout_s=2.0).get("ok"))
    except IpcError:
        return False


def _make_instance(configuration: Configuration, roles: Roles) -> Instance:
    try:
        return Instance.create(
            configuration.store_paths.root,
            [role.name for role in roles],
            configuration.appliance.queue_table_capacity,
        )
    except IpcError as error:
        raise PreflightFailed(str(error)) from error


def _supervise(
    configuration: Configuration,
    current: Callable[[], Configuration],
    announce: Announcements,
    roles: Roles,
    made: _Made,
    started: float,
) -> Result:
    paths = configuration.paths
    selector = selectors.DefaultSelector()
    try:
        stacks_fd = process.open_own_file(paths.stacks_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        control = ControlServer(paths.control_socket, selector)
    except OSError as error:
        raise PreflightFailed(f"data folder {paths.data}: {error.strerror}: {error.filename}") from error

    def let_go() -> None:
        control.let_go()
        made.signals.close()
        selector.close()

    def log_as(role: str) -> None:
        if role != "logger":
            log_to(made.channel, role, configuration.appliance.log_level)
        else:
            logging.getLogger().handlers = [logging.NullHandler()]

    def say_ready() -> None:
        for port, what in listening_ports(configuration).items():
            announce.say(f"{what} listens on {configuration.host}:{port}")
        announce.say(f"ready in {time.monotonic() - started:.2f} s")
        notify("READY=1")
        logger.info("appliance ready: after_ms=%d", (time.monotonic() - started) * 1000)

    supervisor = Supervisor(
        roles,
        lambda: RoleSettings(current(), made.channel),
        Inheritance(
            instance=made.instance,
            stacks_fd=stacks_fd,
            let_go=let_go,
            let_go_of_lock=made.lock.close,
            log_as=log_as,
            orphan_patience_ms=configuration.appliance.role_stop_timeout,
        ),
        made.signals,
        selector,
        Timeouts(configuration.appliance.heartbeat_timeout, configuration.appliance.role_stop_timeout),
        announce.say,
        say_ready,
    )
    requests = ControlRequests(supervisor, made.instance, {"pid": os.getpid(), "data": paths.data})
    control.serve(requests.handle)
    # What there is now stays for good: the collector need not look at it, and children need not copy it by looking.
    gc.freeze()
    gc.enable()
    result = supervisor.run()
    is_clean = result.is_clean and is_store_whole(made.instance.control)
    if is_clean:
        _remove_abort(configuration)
    made.instance.unlink()
    for name in filter_role_names(configuration):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(paths.filter_socket(name))
    requests.answer_stop(is_clean=is_clean, error=str(result.error) if result.error else None)
    control.close()
    os.close(stacks_fd)
    selector.close()
    return Result(is_clean, result.error)


def is_store_whole(control: ControlBlock) -> bool:
    """Whether everything written is durable and in both indexes, and nothing has gone wrong with the files.

    # compat: a store left otherwise keeps `abort`, and the next start takes the long way of recovery (store spec, 7.7).
    """
    wrote = control.wrote_offset
    return (
        control.flushed_offset == wrote
        and control.reput_offset == wrote
        and not (control.flag_log_error or control.flag_queue_error or control.flag_index_error)
    )


def _remove_abort(configuration: Configuration) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(configuration.store_paths.abort)
