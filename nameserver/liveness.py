"""Liveness: drops brokers without a recent registration.

A broker registers every 30 s. When its connection is lost it is dropped at once; this module finds silent brokers with an open
connection (remoting spec 3.10).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.remoting import Connection
from nameserver.config import NameServerConfig
from nameserver.routes import RouteTable

logger = logging.getLogger(__name__)

FIRST_SCAN_MS: Final = 5_000  # compat: RocketMQ's, so that a restarted one drops what it must as early


class Liveness:
    """Scans the routes on the running loop until `close`. `config` is asked at each scan: it may change."""

    def __init__(self, routes: RouteTable, config: Callable[[], NameServerConfig]) -> None:
        self._routes = routes
        self._config = config
        self._loop = asyncio.get_running_loop()
        first_ms = min(FIRST_SCAN_MS, config().scan_not_active_broker_interval)
        self._timer = self._loop.call_later(first_ms / 1000, self._pass)

    def scan(self) -> None:
        """Drops silent brokers and closes their connections."""
        expired_ms = self._config().broker_channel_expired_time
        for address, connection in self._routes.drop_silent(expired_ms):
            logger.warning("broker expired address=%s not_registered_for_ms=%d", address, expired_ms)
            if isinstance(connection, Connection):
                connection.close(f"the broker {address} has not registered for {expired_ms} ms")

    def close(self) -> None:
        """Stops scanning."""
        self._timer.cancel()

    def _pass(self) -> None:
        self._timer = self._loop.call_later(self._config().scan_not_active_broker_interval / 1000, self._pass)
        self.scan()
