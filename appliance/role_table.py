"""The roles of the appliance, and what each needs: a table.

One of the few files that know what the roles are. Each function here imports its role's package when it is called, which is
in the forked child: the supervisor stays small and starts quickly, and the roles import side by side.

Stopping follows the data: the broker takes no more, ha and dispatch catch up, flush syncs last, then the housekeeper writes
the checkpoint. Nobody needs the name server after the broker has taken its leave; the logger hears everyone out.
"""

# ruff: noqa: PLC0415  imports after the fork are this file's purpose

import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from appliance import process
from appliance.configuration import Configuration
from appliance.log_channel import LogChannel
from appliance.role import Role
from ipc.control_block import ControlBlock
from ipc.role_context import RoleContext


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """What the roles are told."""

    configuration: Configuration
    log_channel: LogChannel


def role_table(configuration: Configuration) -> tuple[Role[RoleSettings], ...]:
    """The roles that this configuration asks for, in the order in which they are started."""
    appliance = configuration.appliance
    wanted = {"nameserver": appliance.nameserver_enable, "ha": appliance.ha_enable}
    roles = tuple(role for role in _ROLES if wanted.get(role.name, True)) + _filter_roles(configuration)
    names = {role.name for role in roles}
    return tuple(_without_absent(role, names) for role in roles)


def filter_role_names(configuration: Configuration) -> list[str]:
    """The roles in which filter functions run."""
    return [f"filter-{number}" for number in range(configuration.appliance.python_filter_workers)]


def _filter_roles(configuration: Configuration) -> tuple[Role[RoleSettings], ...]:
    """They need nothing and nobody, are the broker's tools and end with it."""
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
        for name in filter_role_names(configuration)
    )


def _run_filter(context: RoleContext, settings: RoleSettings) -> None:
    from appliance import filter_role

    configuration = settings.configuration
    socket = Path(configuration.paths.filter_socket(context.name))
    filter_role.run(context, socket, configuration.appliance.python_filter_memory)


def _without_absent(role: Role[RoleSettings], names: set[str]) -> Role[RoleSettings]:
    after, outlives = (tuple(name for name in listed if name in names) for listed in (role.after, role.outlives))
    return replace(role, after=after, outlives=outlives)


def _has_dispatch_caught_up(block: ControlBlock) -> bool:
    """Whether both indexes hold all that is written: the broker reads its next queue offsets out of the queue table."""
    return block.reput_offset >= block.wrote_offset


def _mark_store(settings: RoleSettings) -> None:
    """Create `abort`: from now on the store is being written, and whoever finds the file knows it was not left in order.

    # order: recover takes the file's absence for a clean stop, so it must have looked before; and no writer may have begun.
    """
    paths = settings.configuration.store_paths
    os.close(process.open_own_file(os.fspath(paths.abort), os.O_WRONLY | os.O_CREAT))
    folder = os.open(paths.root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _run_logger(context: RoleContext, settings: RoleSettings) -> None:
    from appliance import log_daemon

    configuration = settings.configuration
    log_daemon.run(context, settings.log_channel, configuration.appliance, configuration.paths)


def _prepare_loop() -> None:
    """The event loop that the asyncio roles take where it is installed."""
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: F401


def _prepare_recover() -> None:
    import store.recovery.daemon  # noqa: F401


def _run_recover(context: RoleContext, settings: RoleSettings) -> None:
    from store.recovery import daemon

    daemon.run(context, settings.configuration.store, settings.configuration.store_paths)


def _prepare_nameserver() -> None:
    import nameserver.daemon  # noqa: F401

    _prepare_loop()


def _run_nameserver(context: RoleContext, settings: RoleSettings) -> None:
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
    )


def _prepare_housekeeper() -> None:
    import store.housekeeping.daemon  # noqa: F401


def _run_housekeeper(context: RoleContext, settings: RoleSettings) -> None:
    from store.housekeeping import daemon

    daemon.run(context, settings.configuration.store, settings.configuration.store_paths)


def _prepare_flush() -> None:
    import store.flush.daemon  # noqa: F401


def _run_flush(context: RoleContext, settings: RoleSettings) -> None:
    from store.flush import daemon

    daemon.run(context, settings.configuration.store, settings.configuration.store_paths)


def _prepare_dispatch() -> None:
    import store.reput.daemon  # noqa: F401


def _run_dispatch(context: RoleContext, settings: RoleSettings) -> None:
    from store.filter.bit_map import BitMapCalculator
    from store.filter.bloom import BloomFilter
    from store.reput import daemon
    from store.reput.queue_entry import BitMap, no_bit_map

    configuration = settings.configuration
    broker, paths = configuration.broker, configuration.store_paths
    bit_map: BitMap = no_bit_map
    if broker.enable_calc_filter_bit_map:
        bloom = BloomFilter(broker.max_error_rate_of_bloom_filter, broker.expect_consumer_num_use_filter)
        bit_map = BitMapCalculator(paths.config_file("consumerFilter.json"), bloom)
    daemon.run(context, configuration.store, paths, bit_map)


def _prepare_ha() -> None:
    import store.ha.daemon  # noqa: F401


def _run_ha(context: RoleContext, settings: RoleSettings) -> None:
    from store.ha import daemon

    configuration = settings.configuration
    daemon.run(
        context,
        configuration.store,
        configuration.store_paths,
        configuration.host,
        configuration.broker.listen_port + 1,
    )


def _prepare_broker() -> None:
    import broker.broker  # noqa: F401

    _prepare_loop()


def _run_broker(context: RoleContext, settings: RoleSettings) -> None:
    from broker import broker

    configuration = settings.configuration
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
    )


_ROLES: tuple[Role[RoleSettings], ...] = (
    # Nobody waits for the logger: what is logged before it runs waits in the channel.
    Role(name="logger", run=_run_logger, after=(), stops=7, holds_store=False),
    Role(
        name="recover",
        run=_run_recover,
        prepare=_prepare_recover,
        after=(),
        stops=0,
        runs_once=True,
        afterwards=_mark_store,
    ),
    # It knows nothing of the store, so it need not wait for recover.
    Role(name="nameserver", run=_run_nameserver, prepare=_prepare_nameserver, after=(), stops=6, holds_store=False),
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
