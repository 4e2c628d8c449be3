"""HaSlave: the slave's side of replication. It reports to the master how far it has copied the log, and copies what arrives.

A report is `copied_offset`, in the bytes of `headrace.protocol.ha_frame`. The slave sends one as soon as it is connected (RocketMQ's slaves wait
five seconds), whenever it has copied more, and when it has been quiet for a while. `store.ha.master` sends what follows, from the beginning of the
newest file if the first report is 0. A frame that does not begin where the own log ends closes the connection; the slave
reconnects and reports again.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from ssl import SSLContext

from headrace.errors import ConfigError, RemoteProtocolError
from headrace.protocol.ha_frame import HaFrame, HaFrameDecoder, encode_report
from ipc.bells import Bell
from store.config import StoreConfig
from store.errors import HaError
from store.ha.slave_log import SlaveLog

logger = logging.getLogger(__name__)

_PAUSE_S = 5.0  # compat: RocketMQ's pause before it connects again
_CONNECT_TIMEOUT_S = 5.0  # limit: as the pause
_READ_SIZE = 1 << 20
_ROUND_S = 0.5  # limit: how exactly the intervals of the configuration are kept
_SHORTEST_ADDRESS = 6  # compat: a shorter haMasterAddress counts as none


class HaSlave:
    """Follows one master, for ever."""

    def __init__(
        self,
        config: StoreConfig,
        log: SlaveLog,
        bells: dict[str, Bell],
        wait_until: Callable[[Callable[[], bool]], Awaitable[None]],
        make_context: Callable[[], SSLContext | None] = lambda: None,
    ) -> None:
        """`wait_until` waits for a condition that the housekeeper brings about, which rings this role.

        `make_context` returns the context of a new connection; None for plain text. It may raise ConfigError.
        """
        self._make_context = make_context
        self._config = config
        self._log = log
        self._bells = bells
        self._wait_until = wait_until
        self._last_report = 0.0

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
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=self._make_context(), limit=_READ_SIZE)
        logger.info(
            "connected to master master=%s copied_offset=%d",
            self._config.ha_master_address,
            self._log.copied_offset,
        )
        try:
            await self._copy(reader, writer)
        finally:
            writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = HaFrameDecoder()
        reported = -1
        last_read = time.monotonic()
        while True:
            now = time.monotonic()
            if now - last_read > self._config.ha_housekeeping_interval / 1000:
                raise HaError("no data from the master within haHousekeepingInterval")
            quiet = now - self._last_report > self._config.ha_send_heartbeat_interval / 1000
            if self._log.copied_offset != reported or quiet:
                if writer.is_closing():
                    raise HaError("the connection to the master was lost")
                reported = self._log.copied_offset
                writer.write(encode_report(reported))
                self._last_report = now
            try:
                async with asyncio.timeout(_ROUND_S):
                    data = await reader.read(_READ_SIZE)
            except TimeoutError:
                continue
            if not data:
                raise HaError("the master closed the connection; see 'connection to slave closed' in the master's log")
            last_read = time.monotonic()
            for frame in frames.feed(data):
                await self._take(frame)
            self._publish()

    async def _take(self, frame: HaFrame) -> None:
        log, offset = self._log, frame.physical_offset
        if log.copied_offset == 0 and frame.data:
            log.request_file(offset)
            self._bells["housekeeper"].ring()
            await self._wait_until(lambda: log.has_begun_at(offset))
            log.begin_at(offset)
        if log.copied_offset:
            log.check_offset(offset)  # compat: heartbeats are checked too
        if not frame.data:
            return
        if not log.has_room(offset, len(frame.data)):
            self._publish()
            self._bells["housekeeper"].ring()
            await self._wait_until(lambda: log.has_room(offset, len(frame.data)))
        log.append(offset, frame.data)

    def _publish(self) -> None:
        """Publishes what has been copied, once for all frames of a read."""
        if self._log.publish_complete():
            for role in ("dispatch", "flush", "housekeeper"):
                self._bells[role].ring()
