"""HaSlave: the slave's side of replication. It reports to the master how far it has copied the log, and copies what arrives.

A report is `copied_offset`, in the bytes of `headrace.protocol.ha_frame`. The slave sends one as soon as it is connected (RocketMQ's slaves wait
five seconds), whenever it has copied more, and when it has been quiet for a while. `store.ha.master` sends what follows, from the beginning of the
newest file if the first report is 0. A frame that does not begin where the own log ends closes the connection; the slave
reconnects and reports again.
"""

import asyncio
import logging
from collections.abc import Callable
from ssl import SSLContext
from typing import cast

from headrace.errors import ConfigError, RemoteProtocolError
from ipc.bells import Bell
from store.config import StoreConfig
from store.errors import HaError
from store.ha.master_link import MasterLink
from store.ha.slave_log import SlaveLog

logger = logging.getLogger(__name__)

_PAUSE_S = 5.0  # compat: RocketMQ's pause before it connects again
_CONNECT_TIMEOUT_S = 5.0  # limit: as the pause
_ROUND_S = 0.5  # limit: how exactly the intervals of the configuration are kept
_SHORTEST_ADDRESS = 6  # compat: a shorter haMasterAddress counts as none


class HaSlave:
    """Follows one master, for ever."""

    def __init__(
        self,
        config: StoreConfig,
        log: SlaveLog,
        bells: dict[str, Bell],
        make_context: Callable[[], SSLContext | None] = lambda: None,
    ) -> None:
        """`make_context` returns the context of a new connection; None for plain text. It may raise ConfigError."""
        self._make_context = make_context
        self._config = config
        self._log = log
        self._bells = bells

    async def follow(self) -> None:
        """Connects, copies, and after a failure connects again. Ends by being cancelled only."""
        if len(self._config.ha_master_address) < _SHORTEST_ADDRESS:
            logger.warning("replication disabled, haMasterAddress is not set")
            return
        while True:
            try:
                await self._follow_once()
            except (OSError, HaError, RemoteProtocolError, TimeoutError, ConfigError) as error:
                logger.warning(
                    "replication interrupted, will reconnect master=%s error=%r",
                    self._config.ha_master_address,
                    str(error),
                )
            await asyncio.sleep(_PAUSE_S)

    async def _follow_once(self) -> None:
        host, _, port = self._config.ha_master_address.rpartition(":")
        self._log.start_over()
        link = MasterLink(self._config, self._log, self._bells)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(
                    lambda: cast(asyncio.Protocol, link), host, int(port), ssl=self._make_context()
                )
            logger.info(
                "connected to master master=%s copied_offset=%d",
                self._config.ha_master_address,
                self._log.copied_offset,
            )
            while not link.ended.done():
                await asyncio.wait([link.ended], timeout=_ROUND_S)
                link.look_after()
            raise link.ended.result()
        finally:
            link.close()
