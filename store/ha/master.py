"""HaMaster: the master's side of replication. It sends each slave the log from the offset that the slave reports, and publishes the highest report.

    slave → master   i64 offset                          report: the slave has everything below it; the first one says where to begin
    master → slave   i64 offset, i32 size, size bytes    size 0: heartbeat; a frame never crosses the end of a file

A connection whose first byte is that of a TLS hello is encrypted (RocketMQ's own slaves have no TLS); the first byte of a report is 0.

Data is sent when it is written, before it is flushed, as in RocketMQ. A connection is driven by the slave's reports and
by `push`, which sends as much as its socket accepts.

With SYNC_MASTER answers wait for what is done here, so this is a hot module (types in the `.pxd`).
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

from headrace.protocol.ha_frame import ReportDecoder, encode_head
from ipc.bells import Bell
from ipc.control_block import ControlBlock
from ipc.publish.ha import HaPublisher
from store.commit_log.reader import CommitLogReader
from store.config import StoreConfig

logger = logging.getLogger(__name__)

_FRAMES_A_TURN = 16  # limit: to one slave in one write, then the others are served
_BYTES_A_TURN = 512 << 10  # limit: the same; the last frame may go beyond
_HIGH_WATER_BYTES = 1 << 20  # limit: unsent bytes in the process for a slave that does not read


_TLS_HANDSHAKE = 0x16


class LinkTls(Protocol):
    """What is needed of `headrace.remoting.server_tls.ServerTls`."""

    is_disabled: bool

    def accept(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, user: Any, data: bytes
    ) -> asyncio.Transport:
        """Starts TLS on a connection whose first bytes are a TLS hello; returns the transport of plain bytes."""


class HaMaster:
    """All slaves connected to this broker. `make_tls` is called when the first slave uses TLS; None: TLS is not served."""

    def __init__(
        self,
        config: StoreConfig,
        control: ControlBlock,
        reader: CommitLogReader,
        broker: Bell,
        make_tls: Callable[[], LinkTls] | None = None,
    ) -> None:
        self._make_tls = make_tls
        self._tls: LinkTls | None = None
        self.config = config
        self.control = control
        self.reader = reader
        self._broker = broker
        self._publisher = HaPublisher(control)
        self._links: set[SlaveLink] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Begins to accept slaves; returns the port (of use for port 0). Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port, reuse_address=True)
        self._publisher.slave_count(0)
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def slave_count(self) -> int:
        """Number of connected slaves."""
        return len(self._links)

    def find_tls(self) -> LinkTls | None:
        """How slaves that use TLS are served; None: not at all."""
        if self._tls is None and self._make_tls is not None:
            self._tls = self._make_tls()
        return None if self._tls is None or self._tls.is_disabled else self._tls

    def push(self) -> None:
        """Sends written data to all slaves, as much as their sockets accept."""
        for link in tuple(self._links):
            link.push()

    def look_after(self) -> None:
        """Sends heartbeats to idle slaves, and disconnects silent ones. Called periodically."""
        now = time.monotonic()
        for link in tuple(self._links):
            link.look_after(now)

    def have_all_acknowledged(self) -> bool:
        """Whether every slave that has reported its offset has received everything written."""
        return all(not 0 <= link.acknowledged < self.control.wrote_offset for link in self._links)

    async def stop(self) -> None:
        """Closes the listener and all links."""
        if self._server is not None:
            self._server.close()
        for link in tuple(self._links):
            link.close("this broker is stopping")
        if self._server is not None:
            await self._server.wait_closed()
        self._publisher.slave_count(0)

    def _accept(self) -> asyncio.Protocol:
        return cast(asyncio.Protocol, SlaveLink(self))

    # ---- called by links

    def add(self, link: "SlaveLink") -> None:
        """A slave has connected. compat: it counts from now on, as in RocketMQ, although it has not reported its offset."""
        self._links.add(link)
        self._publisher.slave_count(len(self._links))

    def remove(self, link: "SlaveLink") -> None:
        """A slave has disconnected."""
        self._links.discard(link)
        self._publisher.slave_count(len(self._links))
        self._broker.ring()

    def acknowledge(self, offset: int) -> None:
        """A slave has everything below `offset`. Never decreases, even if slaves disconnect."""
        if offset > self.control.push2slave_max_offset:
            self._publisher.push2slave_max_offset(offset)
            self._broker.ring()


class SlaveLink:
    """One slave's connection: an `asyncio.Protocol`."""

    def __init__(self, master: HaMaster) -> None:
        self._master = master
        self._transport: asyncio.Transport | None = None
        self._is_new = True
        self._reports = ReportDecoder()
        self._next_offset = -1
        self._is_paused = False
        self._is_turn_coming = False
        self._last_read = self._last_write = time.monotonic()
        self._name = "?"
        self.acknowledged = -1

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A slave has connected; it must report its offset before anything is sent."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's are of another class
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        address = transport.get_extra_info("peername") or ("?", 0)
        self._name = f"{address[0]}:{address[1]}"
        logger.info("slave connected slave=%s", self._name)
        self._master.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The slave has disconnected, or was disconnected."""
        logger.info(
            "slave disconnected slave=%s acknowledged=%d reason=%r", self._name, self.acknowledged, str(exc or "closed")
        )
        self._transport = None
        self._master.remove(self)

    def data_received(self, data: bytes) -> None:
        """Reports. Only the last complete one counts."""
        if self._is_new:
            self._is_new = False
            if self._begins_tls(data):
                return
        self._last_read = time.monotonic()
        offset = self._reports.feed(data)
        if offset is None:
            return
        wrote = self._master.control.wrote_offset
        if offset < 0 or offset > wrote:
            self.close(f"the slave reported offset {offset}, local log ends at {wrote}: not a copy of this log")
            return
        self.acknowledged = offset
        if self._next_offset < 0:
            # compat: an empty slave begins with the newest file; older data is never sent.
            self._next_offset = offset or wrote - wrote % self._master.reader.file_size
            logger.info(
                "replication to slave started slave=%s reported=%d next_offset=%d",
                self._name,
                offset,
                self._next_offset,
            )
        self._master.acknowledge(offset)
        self.push()

    def eof_received(self) -> None:
        """The slave has closed its side: so does the transport."""

    def pause_writing(self) -> None:
        """The slave does not read fast enough."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """The slave reads again."""
        self._is_paused = False
        self.push()

    # ---- TLS

    def _begins_tls(self, data: bytes) -> bool:
        """Whether the connection does not begin with accepted plain text."""
        master = self._master
        if data[0] != _TLS_HANDSHAKE:
            if master.config.ha_tls_enable:
                self.close("slaves must use TLS: set haTlsEnable=true on the slave")
            return master.config.ha_tls_enable
        tls = master.find_tls()
        if tls is None:
            self.close("TLS is disabled (tlsMode=disabled)")
        elif self._transport is not None:
            self._transport = tls.accept(asyncio.get_running_loop(), self._transport, self, data)
        return True

    def tls_established(self, subject: str | None) -> None:
        """The handshake is complete."""
        logger.info("slave uses TLS slave=%s certificate=%s", self._name, subject or "none")

    def tls_buffered(self, size: int) -> None:
        """Not counted: slaves are few."""

    def tls_failed(self, reason: str) -> None:
        """The handshake, or a record after it, failed."""
        self.close(f"TLS failed: {reason}")

    # ---- sending

    def push(self) -> None:
        """Sends frames until everything written is sent, the socket is full, or other slaves must be served."""
        transport, batch = self._transport, self._master.config.ha_transfer_batch_size
        if transport is None or self._next_offset < 0 or self._is_paused or transport.is_closing():
            return
        parts: list[bytes | memoryview] = []
        wrote = self._master.control.wrote_offset
        end = min(wrote, self._next_offset + min(_FRAMES_A_TURN * batch, _BYTES_A_TURN))
        while self._next_offset < end:
            data = self._master.reader.read_on(self._next_offset)
            if data is None:
                self.close(f"offset {self._next_offset} was deleted from the log; copy the master's files to the slave")
                return
            piece = data[:batch]
            parts += (encode_head(self._next_offset, len(piece)), piece)
            self._next_offset += len(piece)
        if not parts:
            return
        transport.write(b"".join(parts))  # a copy: the file may be deleted before the slave has read it
        self._last_write = time.monotonic()
        if self._next_offset < wrote and not self._is_turn_coming:
            self._is_turn_coming = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turn_coming = False
        self.push()

    def look_after(self, now: float) -> None:
        """Sends a heartbeat if the connection is idle; closes it if the slave is silent."""
        config, transport = self._master.config, self._transport
        if transport is None:
            return
        if now - self._last_read > config.ha_housekeeping_interval / 1000:
            self.close(f"no data from the slave within haHousekeepingInterval={config.ha_housekeeping_interval} ms")
        elif self._next_offset >= 0 and now - self._last_write > config.ha_send_heartbeat_interval / 1000:
            transport.write(encode_head(self._next_offset, 0))
            self._last_write = now

    def close(self, reason: str) -> None:
        """Closes the connection."""
        if self._transport is not None and not self._transport.is_closing():
            logger.info("connection to slave closed slave=%s reason=%r", self._name, reason)
            self._transport.close()
