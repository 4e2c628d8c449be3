"""Starts an appliance from its configuration and cleans up after it: everything before the first fork and after the last role.

In this order: the limits of this process; the data folder and its lock; the stores and their locks; the checks of `preflight`; shared memory
and bells; the log channel; the control socket; then the supervisor's loop. Cleaned up in the opposite order. `abort` is removed only after
a clean stop, shared memory always. The next start removes what a killed predecessor left, under the lock.
"""

import contextlib
import gc
import logging
import os
import selectors
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from appliance import export_process, preflight, process
from appliance.broker_group import BrokerGroup
from appliance.child import Inheritance
from appliance.configuration_reader import Sources, read_configuration
from appliance.control_requests import ControlRequests
from appliance.control_server import ControlServer
from appliance.effective_configuration import BrokerConfiguration, Configuration
from appliance.errors import PreflightFailed
from appliance.export_order import ExportOrder
from appliance.export_runs import ExportRuns
from appliance.installed_program import InstalledProgram
from appliance.log_channel import LogChannel, log_to
from appliance.managed_role import ManagedRole, Phase
from appliance.reload import ReloadedSettings, Reloader, current_log_level
from appliance.role_supervisor import RoleSupervisor, Timeouts
from appliance.role_table import ROLE_TABLES, ApplianceSettings, RoleTables
from appliance.service_manager import ServiceManager
from appliance.signal_pipe import SignalPipe
from appliance.supervisor import SIGNALS, Announcements, Result, Supervisor
from ipc.errors import StoreLocked
from ipc.reload_page import ReloadPage
from ipc.role_context import ApplianceRoleContext, RoleContext
from ipc.role_pages import RolePages
from ipc.store_lock import StoreLock

_LOCK_RETRY_S: Final = 0.1
_CONSOLE_SAID_WITHIN_S: Final = 10.0

logger = logging.getLogger(__name__)


def run_appliance(sources: Sources, announce: Announcements, tables: RoleTables = ROLE_TABLES) -> Result:
    """Run until stopped. Raises ApplianceError if it cannot start."""
    started = time.monotonic()
    program = InstalledProgram()
    configuration = read_configuration(sources)
    process.fill_standard_streams()
    process.hide_files_from_others()
    for warning in configuration.warnings:
        announce.warn(warning)
    process.set_title("supervisor")
    process.keep_large_blocks()
    open_files = process.raise_open_files_limit()
    with contextlib.ExitStack() as stack:
        paths = configuration.paths
        preflight.make_folders((paths.data, paths.nameserver, paths.logs))
        preflight.check_links((paths.nameserver, paths.logs))
        preflight.check_layout(paths, [broker.paths for broker in configuration.brokers])
        lock = _take_lock(configuration)
        stack.callback(lock.close)
        for warning in preflight.check_open_files(open_files):
            announce.warn(warning)
        groups = [BrokerGroup(broker, sources, tables.broker) for broker in configuration.brokers]
        for group in groups:
            stack.callback(group.abandon)
        _take_stores(configuration, groups, announce)
        is_only = len(groups) == 1
        preflight.check_ports(
            configuration.host, listening_ports(configuration, configuration.brokers if is_only else ())
        )
        for group in groups:
            if group.is_open and not is_only:
                _try_group(group, groups, announce, group.check_ports)
        # From here on signals are recorded and handled when the loop begins. Earlier ones end the process, which has created nothing yet.
        signals = SignalPipe(SIGNALS)
        stack.callback(signals.close)
        for group in groups:
            if group.is_open:
                _try_group(group, groups, announce, group.make_memory)
        channel = LogChannel()
        stack.callback(channel.close)
        log_to(channel, "supervisor", configuration.appliance.log_level)
        logger.info("appliance starting pid=%d data=%s", os.getpid(), paths.data)
        return _supervise(
            sources, configuration, announce, tables, groups, _Made(program, lock, signals, channel), started
        )


class _Made(Struct, frozen=True):
    program: InstalledProgram
    lock: StoreLock
    signals: SignalPipe
    channel: LogChannel


def listening_ports(configuration: Configuration, brokers: Iterable[BrokerConfiguration]) -> dict[int, str]:
    """Every port on which the appliance's own roles and those of these brokers listen, with its purpose."""
    ports = (
        {configuration.appliance.nameserver_port: "name server"} if configuration.appliance.nameserver_enable else {}
    )
    for broker in brokers:
        ports.update(broker.listening_ports())
    return ports


def _take_lock(configuration: Configuration) -> StoreLock:
    """The lock of the data folder, held only by the supervisor."""
    path = configuration.paths.lock
    try:
        return StoreLock.take(path)
    except StoreLocked as error:
        raise PreflightFailed(
            f"data folder {configuration.paths.data} is in use by a running appliance ({_pids(error)}); "
            f"stop it with: headrace stop --data {configuration.paths.data}"
        ) from error
    except OSError as error:
        raise PreflightFailed(
            f"cannot lock the data folder {path}: {error.strerror}; check its owner and mode"
        ) from error


def _take_stores(configuration: Configuration, groups: Sequence[BrokerGroup], announce: Announcements) -> None:
    """Lock the store of each broker. Roles of a dead supervisor may still be finishing their work on it: waits for them for a limited time.

    Raises PreflightFailed if no broker can lock its store.
    """
    lock_wait_s = configuration.appliance.store_lock_wait / 1000
    deadline = time.monotonic() + lock_wait_s
    announced: set[str] = set()
    for group in groups:

        def take(group: BrokerGroup = group) -> None:
            while True:
                try:
                    warnings = group.take_store()
                except StoreLocked as error:
                    if time.monotonic() >= deadline:
                        raise PreflightFailed(
                            f"data folder {group.configuration.paths.folder} is in use: {error.path} is locked by {_pids(error)}; "
                            f"stop {'these processes' if len(error.pids) > 1 else 'that process'}, then start again"
                        ) from error
                    if group.name not in announced:
                        announced.add(group.name)
                        announce.warn(
                            f"waiting for {_pids(error)} to release the store, at most {lock_wait_s:g} s (storeLockWait)"
                        )
                    time.sleep(_LOCK_RETRY_S)
                else:
                    for warning in warnings:
                        announce.warn(warning)
                    return

        _try_group(group, groups, announce, take)


def _try_group(
    group: BrokerGroup, groups: Sequence[BrokerGroup], announce: Announcements, step: Callable[[], None]
) -> None:
    """One step of the start of a broker. Its failure ends the appliance only if no other broker can start."""
    try:
        step()
    except PreflightFailed as error:
        group.fail(error)
        if all(other.error is not None for other in groups):
            raise
        announce.warn(f"{group.name} could not start; the other brokers continue: {error}")


def _pids(error: StoreLocked) -> str:
    if not error.pids:
        return "another process"
    return f"pid{'s' if len(error.pids) > 1 else ''} {', '.join(map(str, error.pids))}"


def _supervise(
    sources: Sources,
    configuration: Configuration,
    announce: Announcements,
    tables: RoleTables,
    groups: Sequence[BrokerGroup],
    made: _Made,
    started: float,
) -> Result:
    paths = configuration.paths
    service_manager = ServiceManager()
    reload_page = ReloadPage()
    selector = selectors.DefaultSelector()
    try:
        stacks_fd = process.open_own_file(paths.stacks_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        control = ControlServer(paths.control_socket, selector)
    except OSError as error:
        raise PreflightFailed(
            f"cannot prepare the data folder {paths.data}: {error.filename}: {error.strerror}; check permissions and free space"
        ) from error

    def release_all_but(own: BrokerGroup | None) -> None:
        control.release()
        made.signals.close()
        selector.close()
        made.lock.close()
        for group in groups:
            if group is not own:
                group.release()

    def log_as(role: str) -> None:
        if role != "logger":
            log_to(made.channel, role, current_log_level(reload_page, configuration.appliance.log_level))
        else:
            logging.getLogger().handlers = [logging.NullHandler()]

    def inherit(group: BrokerGroup) -> Inheritance[RoleContext]:
        instance = group.instance
        if instance is None:
            raise ValueError(f"{group.name} has no shared memory yet")

        def make_context(name: str, stop_fd: int, may_stop: Callable[[], bool]) -> RoleContext:
            reloaded = ReloadedSettings(reload_page, group.name)
            return RoleContext(
                name,
                instance,
                instance.bells.get(name),
                stop_fd,
                may_stop,
                reloaded.follow_log_level,
                reloaded.take_options,
            )

        return Inheritance(
            pages=instance.pages,
            make_context=make_context,
            stacks_fd=stacks_fd,
            release=lambda: release_all_but(group),
            release_lock=group.release_lock,
            log_as=log_as,
            check_program=made.program.check,
            orphan_patience_ms=configuration.appliance.role_stop_timeout,
        )

    def say_console(role: ManagedRole[Any, Any]) -> bool:
        if role.problem:
            announce.warn(f"the console is not available; the supervisor tries again: {role.problem}")
        elif role.phase is Phase.RUNNING:
            announce.say(f"console at {configuration.console.url}")
        else:
            return supervisor.is_stopping
        return True

    def say_ready() -> None:
        up = [group.configuration for group in groups if group.error is None]
        for port, what in listening_ports(configuration, up).items():
            announce.say(f"{what} listening on {configuration.host}:{port}")
        if console is not None:
            until_s = time.monotonic() + _CONSOLE_SAID_WITHIN_S
            _, role = console
            supervisor.when(lambda: say_console(role) or time.monotonic() > until_s)
        announce.say(f"ready in {time.monotonic() - started:.2f} s")
        service_manager.ready()
        logger.info("appliance ready startup_ms=%d", (time.monotonic() - started) * 1000)

    timeouts = Timeouts(configuration.appliance.heartbeat_timeout, configuration.appliance.role_stop_timeout)
    own_roles = tables.appliance(configuration)
    pages = RolePages.anonymous([role.name for role in own_roles])
    own = RoleSupervisor(
        "",
        own_roles,
        lambda: ApplianceSettings(configuration, made.channel),
        Inheritance(
            pages=pages,
            make_context=lambda name, stop_fd, may_stop: ApplianceRoleContext(
                name, pages, None, stop_fd, may_stop, ReloadedSettings(reload_page).follow_log_level
            ),
            stacks_fd=stacks_fd,
            release=lambda: release_all_but(None),
            release_lock=lambda: None,
            log_as=log_as,
            check_program=made.program.check,
            orphan_patience_ms=configuration.appliance.role_stop_timeout,
        ),
        timeouts,
    )
    supervisor = Supervisor(
        own,
        groups,
        inherit,
        made.signals,
        selector,
        timeouts,
        announce,
        service_manager,
        say_ready,
        Reloader(sources, configuration, reload_page).reload,
        _make_exports(configuration),
    )
    console = supervisor.find_role("console")
    tls = configuration.tls
    tls_files = {"certificates": tls.certificates, "authorities": tls.authorities}
    requests = ControlRequests(supervisor, {"pid": os.getpid(), "data": paths.data, "tls_files": tls_files})
    control.serve(requests.handle)
    tables.import_shared()
    # Existing objects stay for ever: the collector need not visit them, and children need not copy their pages for that.
    gc.freeze()
    gc.enable()
    result = supervisor.run()
    requests.answer_stop(is_clean=result.is_clean, error=str(result.error) if result.error else None)
    control.close()
    os.close(stacks_fd)
    selector.close()
    return result


def _make_exports(configuration: Configuration) -> ExportRuns:
    """The exports of this appliance's brokers, into the configured folder."""
    folder = configuration.export_folder

    def command(order: ExportOrder) -> list[str]:
        broker = configuration.find_broker(order.broker) if order.broker else configuration.brokers[0]
        paths, options = broker.store_paths, broker.broker
        log = paths.commit_log
        source = paths.root if log == paths.root / "commitlog" else log
        return export_process.command(
            order, folder, os.path.abspath(source), options.broker_name, options.broker_cluster_name
        )

    labels = [broker.label for broker in configuration.brokers if broker.label]
    return ExportRuns(folder, labels, command, export_process.environment)
