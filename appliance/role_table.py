"""The roles of a broker, and the appliance's own, with their dependencies: two tables.

One of the few files that depend on the individual roles. Each function here imports its role's package when it is called, in
the forked child, so that roles import in parallel. Only what several roles need is imported by the supervisor (`_import_shared`).

Stopping follows the data: the broker accepts no more, ha and dispatch catch up, flush syncs last, then the housekeeper writes
the checkpoint. The name server is not needed after the broker has unregistered; the logger stops last.
"""

# ruff: noqa: PLC0415  imports after the fork are this file's purpose

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from appliance import process
from appliance.effective_configuration import BrokerConfiguration, Configuration
from appliance.log_channel import LogChannel
from appliance.role import Role, qualified_name
from ipc.control_block import ControlBlock
from ipc.role_context import ApplianceRoleContext, RoleContext
from store.abort_file import write_abort

if TYPE_CHECKING:
    from ssl import SSLContext

    from headrace.model.tls_settings import TlsSettings
    from headrace.remoting.server_tls import ServerTls


class ApplianceSettings(Struct, frozen=True):
    """Settings of the appliance's own roles."""

    configuration: Configuration
    log_channel: LogChannel


ApplianceRole = Role[ApplianceRoleContext, ApplianceSettings]
BrokerRole = Role[RoleContext, BrokerConfiguration]


class RoleTables(Struct, frozen=True):
    """The two tables, as functions of the configuration; tests may provide their own.

    `import_shared` is called before the first fork.
    """

    appliance: Callable[[Configuration], Sequence[ApplianceRole]]
    broker: Callable[[BrokerConfiguration], Sequence[BrokerRole]]
    import_shared: Callable[[], None] = lambda: None


def appliance_roles(configuration: Configuration) -> tuple[ApplianceRole, ...]:
    """The roles that serve all brokers, in start order."""
    wanted = {
        "nameserver": configuration.appliance.nameserver_enable,
        "console": configuration.appliance.console_enable,
    }
    return tuple(role for role in _APPLIANCE_ROLES if wanted.get(role.name, True))


def broker_roles(broker: BrokerConfiguration) -> tuple[BrokerRole, ...]:
    """The roles of one broker, in start order."""
    wanted = {"ha": broker.appliance.ha_enable}
    roles = tuple(role for role in _BROKER_ROLES if wanted.get(role.name, True)) + _filter_roles(broker)
    names = {role.name for role in roles}
    if broker.appliance.nameserver_enable:
        names.add("nameserver")
    return tuple(_without_absent(role, names) for role in roles)


def filter_role_names(broker: BrokerConfiguration) -> list[str]:
    """The roles that run filter functions."""
    return [f"filter-{number}" for number in range(broker.appliance.python_filter_workers)]


def _filter_roles(broker: BrokerConfiguration) -> tuple[BrokerRole, ...]:
    """They depend on no other role, serve only the broker role and end with it."""
    return tuple(
        Role(
            name=name,
            run=_run_filter,
            after=(),
            stops=2,
            ends_with="broker",
            is_expendable=True,
            holds_store=False,
        )
        for name in filter_role_names(broker)
    )


def _run_filter(context: RoleContext, broker: BrokerConfiguration) -> None:
    from appliance import filter_role

    socket = Path(broker.paths.filter_socket(context.name))
    title = qualified_name(broker.label, context.name)
    filter_role.run(context, title, socket, broker.appliance.python_filter_memory)


def _without_absent(role: BrokerRole, names: set[str]) -> BrokerRole:
    after, outlives = (tuple(name for name in listed if name in names) for listed in (role.after, role.outlives))
    return replace(role, after=after, outlives=outlives)


def _has_dispatch_caught_up(block: ControlBlock) -> bool:
    """Whether both indexes are complete: the broker reads its next queue offsets from the queue table."""
    return block.reput_offset >= block.wrote_offset


def _mark_store(broker: BrokerConfiguration) -> None:
    """Create `abort`: from now on the store is in use, and a leftover file shows an unclean stop.

    # order: recover treats the absence of the file as a clean stop, so it must have run before; and no writer may have begun.
    """
    paths = broker.store_paths
    fd = process.open_own_file(os.fspath(paths.abort), os.O_RDWR | os.O_CREAT)
    try:
        write_abort(fd)
    finally:
        os.close(fd)
    folder = os.open(paths.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _run_logger(context: ApplianceRoleContext, settings: ApplianceSettings) -> None:
    from appliance import log_daemon

    configuration = settings.configuration
    log_daemon.run(context, settings.log_channel, configuration.appliance, configuration.paths)


def _server_tls(settings: "TlsSettings") -> "ServerTls":
    """TLS of a role's listeners; nothing is loaded until a client uses it."""
    from headrace.remoting.server_tls import ServerTls

    return ServerTls(settings, _make_certificate)


def _make_certificate(path: Path) -> None:
    """Makes it in a process of its own: the library would keep 5 MiB in this one. Raises OSError."""
    import subprocess

    from ipc import interpreter

    program = "from appliance import certificates; certificates.main(sys.argv[1])"
    made = subprocess.run(
        interpreter.command(program, str(path)), check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if made.returncode:
        said = made.stderr.strip().splitlines() or [f"exit code {made.returncode}"]
        raise OSError(errno.EIO, said[-1])


def _prepare_recover() -> None:
    import store.recovery.daemon  # noqa: F401


def _run_recover(context: RoleContext, broker: BrokerConfiguration) -> None:
    from store.recovery import daemon

    daemon.run(context, broker.store, broker.store_paths)


def _prepare_nameserver() -> None:
    import nameserver.daemon  # noqa: F401


def _run_nameserver(context: ApplianceRoleContext, settings: ApplianceSettings) -> None:
    from nameserver import daemon

    configuration = settings.configuration
    daemon.run(
        context.beat,
        context.running,
        context.stop_fd,
        configuration.nameserver,
        configuration.paths.nameserver,
        configuration.host,
        configuration.appliance.nameserver_port,
        _server_tls(configuration.tls),
        context.counters.add,
    )


def _run_console(context: ApplianceRoleContext, settings: ApplianceSettings) -> None:
    """The port first: while it is in use, an attempt imports little."""
    from web.listener import bind

    configuration, options = settings.configuration, settings.configuration.console
    listener = bind(options.console_host, options.console_port)

    from appliance.option_sources import own_servers
    from headrace.client.settings import ClientConfig, Credentials
    from headrace.remoting.tls_context import outgoing_context
    from web import daemon
    from web.application import ConsoleSettings

    cluster = ClientConfig(
        configuration.brokers[0].nameserver_addresses,
        credentials=Credentials(options.console_access_key, options.console_secret_key)
        if options.console_access_key
        else Credentials.from_env(),
        tls=outgoing_context(configuration.tls) or False,
    )
    paths = configuration.paths
    console = ConsoleSettings(
        options,
        cluster,
        Path(paths.console),
        Path(paths.control_socket),
        own_servers(configuration),
    )
    daemon.spare_brokers()
    process.take_long_slices()
    daemon.run(context.beat, context.running, context.stop_fd, listener, console)


def _prepare_housekeeper() -> None:
    import store.housekeeping.daemon  # noqa: F401


def _run_housekeeper(context: RoleContext, broker: BrokerConfiguration) -> None:
    from store.housekeeping import daemon

    daemon.run(context, broker.store, broker.store_paths, is_log_copied=broker.is_slave)


def _prepare_flush() -> None:
    import store.flush.daemon  # noqa: F401


def _run_flush(context: RoleContext, broker: BrokerConfiguration) -> None:
    from store.flush import daemon

    if broker.store.is_sync_flush:
        # A sync waits for the disk two or three times; woken, it waited again, for a client that computed, and so did all answers.
        process.take_short_slices()
    daemon.run(context, broker.store, broker.store_paths)


def _prepare_dispatch() -> None:
    import store.dispatch.daemon  # noqa: F401


def _run_dispatch(context: RoleContext, broker: BrokerConfiguration) -> None:
    from store.dispatch import daemon
    from store.dispatch.unusual_entries import BitMap, no_bit_map
    from store.filter.bit_map import BitMapCalculator
    from store.filter.bloom import BloomFilter

    options, paths = broker.broker, broker.store_paths
    bit_map: BitMap = no_bit_map
    if options.enable_calc_filter_bit_map:
        bloom = BloomFilter(options.max_error_rate_of_bloom_filter, options.expect_consumer_num_use_filter)
        bit_map = BitMapCalculator(paths.config_file("consumerFilter.json"), bloom)
    daemon.run(context, broker.store, paths, bit_map, is_log_copied=broker.is_slave)


def _prepare_ha() -> None:
    import store.ha.daemon  # noqa: F401


def _run_ha(context: RoleContext, broker: BrokerConfiguration) -> None:
    from store.ha import daemon

    daemon.run(
        context,
        broker.store,
        broker.store_paths,
        broker.host,
        broker.ha_port,
        lambda: _server_tls(broker.tls),
        lambda: _ha_context(broker),
        copies_log=broker.is_slave,
    )


def _ha_context(broker: BrokerConfiguration) -> "SSLContext | None":
    """The context of a slave's next connection; certificates that were replaced are read again."""
    if not broker.store.ha_tls_enable:
        return None
    from headrace.remoting.tls_context import client_context

    return client_context(broker.tls.client, verify=broker.tls.verifies_servers, check_host_name=False)


def _prepare_broker() -> None:
    import broker.broker  # noqa: F401


def _run_broker(context: RoleContext, configuration: BrokerConfiguration) -> None:
    from broker import broker
    from headrace.remoting.tls_context import outgoing_context

    broker.run(
        context,
        configuration.broker,
        configuration.store,
        configuration.store_paths,
        configuration.host,
        configuration.broker.listen_port,
        configuration.nameserver_addresses,
        configuration.broker_conf,
        [Path(configuration.paths.filter_socket(name)) for name in filter_role_names(configuration)],
        _server_tls(configuration.tls),
        outgoing_context(configuration.tls),
        may_append=not configuration.is_slave,
    )


_APPLIANCE_ROLES: tuple[ApplianceRole, ...] = (
    # No role waits for the logger: records that are logged before it runs wait in the channel.
    Role(name="logger", run=_run_logger, after=(), stops=2, holds_store=False),
    # It has no store, so it does not wait for recover.
    Role(name="nameserver", run=_run_nameserver, prepare=_prepare_nameserver, after=(), stops=1, holds_store=False),
    # It prepares nothing: brokers must be ready first, and its imports take half a second of a processor.
    Role(name="console", run=_run_console, after=(), stops=1, is_optional=True, holds_store=False),
)
"""They stop when every broker has stopped."""

_BROKER_ROLES: tuple[BrokerRole, ...] = (
    Role(
        name="recover",
        run=_run_recover,
        prepare=_prepare_recover,
        after=(),
        stops=0,
        runs_once=True,
        afterwards=_mark_store,
    ),
    Role(
        name="housekeeper",
        run=_run_housekeeper,
        prepare=_prepare_housekeeper,
        after=("recover",),
        stops=5,
        outlives=("broker", "ha", "dispatch", "flush"),
    ),
    Role(
        name="flush",
        run=_run_flush,
        prepare=_prepare_flush,
        after=("recover",),
        stops=4,
        outlives=("broker", "ha", "dispatch"),
    ),
    Role(
        name="dispatch",
        run=_run_dispatch,
        prepare=_prepare_dispatch,
        after=("recover",),
        stops=3,
        stops_when=_has_dispatch_caught_up,
        outlives=("broker", "ha"),
    ),
    Role(name="ha", run=_run_ha, prepare=_prepare_ha, after=("recover",), stops=2),
    Role(
        name="broker",
        run=_run_broker,
        prepare=_prepare_broker,
        after=("housekeeper", "flush", "dispatch", "ha", "nameserver"),
        starts_when=_has_dispatch_caught_up,
        stops=1,
    ),
)


def _import_shared() -> None:
    """What at least three roles need: loaded once, and its memory is theirs in common."""
    import uvloop  # noqa: F401

    import headrace.remoting.server  # noqa: F401
    import store.commit_log.next_record
    import store.mapped_file_queue  # noqa: F401


ROLE_TABLES = RoleTables(appliance_roles, broker_roles, _import_shared)
