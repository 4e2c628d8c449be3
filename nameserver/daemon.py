"""The name server process: creates its parts, runs their loop, and stops on request.

Called in the forked child; this file does not depend on roles. It writes only `kvConfig.json`
and its settings. After a kill, brokers register again, and the file is complete.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvloop

from headrace.model import connection_limits
from headrace.remoting import Connection, RemotingServer
from headrace.remoting.admin_gate import AdminGate
from headrace.remoting.fault_log import FaultLog
from headrace.remoting.open_files import limits_of_process
from headrace.remoting.server_tls import ServerTls
from nameserver.config import NameServerConfig
from nameserver.errors import PortTaken
from nameserver.handlers import NameServerHandlers
from nameserver.kv_config import KvConfig
from nameserver.liveness import Liveness
from nameserver.routes import RouteTable
from nameserver.settings import Settings

logger = logging.getLogger(__name__)

BEAT_INTERVAL_S: Final = 0.25
STOP_GRACE_S: Final = 2.0  # limit: no request takes long, and clients that do not read are not awaited


class NameServer:
    """A name server on the running loop. `listen`, then `stop`."""

    def __init__(self, config: NameServerConfig, directory: Path, tls: ServerTls | None = None) -> None:
        """Reads the keys and values. Raises KvConfigUnreadable."""
        loop = asyncio.get_running_loop()
        kv_path = Path(config.kv_config_path or directory / "kvConfig.json")
        store_path = Path(config.config_store_path or directory / "namesrv.properties")
        self._settings = Settings(
            replace(config, kv_config_path=str(kv_path), config_store_path=str(store_path)), store_path
        )
        self.routes = RouteTable(lambda: int(loop.time() * 1000))
        handlers = NameServerHandlers(self.routes, KvConfig(kv_path), self._settings)
        self.server = RemotingServer(
            handlers.table(),
            on_close=self._closed,
            admit=AdminGate.from_options("name server", config).admit,
            idle_timeout_s=config.server_channel_max_idle_time_seconds,
            limits=limits_of_process(config),
            faults=FaultLog(limits=connection_limits.OPTIONS),
            buffer_limit=config.max_connection_buffer_bytes,
            tls=tls,
        )
        self.liveness = Liveness(self.routes, lambda: self._settings.config)
        self._counted: dict[str, int] = {}

    async def listen(self, host: str, port: int) -> int:
        """Begins to serve; returns the port. Raises PortTaken, or OSError if the address cannot be bound for another reason."""
        try:
            bound = await self.server.listen(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortTaken(host, port) from error
            raise
        self._settings.config = replace(self._settings.config, listen_port=bound)
        return bound

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Closes the listener and all connections."""
        self.liveness.close()
        await self.server.stop(grace_s)

    def add_counts(self, count: Callable[[str, int], None]) -> None:
        """Adds how often each limit was reached since the last time to the counters `limit.OPTION`."""
        for limit, reached in self.server.faults.limits.items():
            count(f"limit.{limit}", reached - self._counted.get(limit, 0))
            self._counted[limit] = reached

    def _closed(self, connection: Connection, reason: str) -> None:
        for address in self.routes.connection_lost(connection):
            logger.warning("broker disconnected address=%s reason=%r", address, reason)


def run(
    beat: Callable[[], None],
    ready: Callable[[], None],
    stop_fd: int,
    config: NameServerConfig,
    directory: Path | str,
    host: str,
    port: int,
    tls: ServerTls | None = None,
    count: Callable[[str, int], None] = lambda _name, _change: None,
) -> None:
    """Serves until `stop_fd` becomes readable.

    `ready` is called once, when clients can connect; `beat` at least every quarter of a second while the loop turns, and so is
    `count(name, change)` for each counter, for the first time before `ready`. Raises PortTaken (an OSError), KvConfigUnreadable.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(beat, ready, stop_fd, config, Path(directory), host, port, tls, count))


async def _serve(
    beat: Callable[[], None],
    ready: Callable[[], None],
    stop_fd: int,
    config: NameServerConfig,
    directory: Path,
    host: str,
    port: int,
    tls: ServerTls | None,
    count: Callable[[str, int], None],
) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    name_server = NameServer(config, directory, tls)
    await name_server.listen(host, port)
    loop.add_reader(stop_fd, stopped.set)
    try:
        name_server.add_counts(count)
        ready()
        while not stopped.is_set():
            beat()
            name_server.add_counts(count)
            try:
                await asyncio.wait_for(stopped.wait(), BEAT_INTERVAL_S)
            except TimeoutError:
                pass
    finally:
        loop.remove_reader(stop_fd)
        await name_server.stop()
    logger.info("name server stopped")
