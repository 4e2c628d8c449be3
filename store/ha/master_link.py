"""MasterLink: a slave's connection to its master. What arrives goes into the log, and what is in the log is reported.

    read ──► frames ──► copied ──► published once ──► reported once ──► roles rung

A frame for which no file is reserved yet waits, and nothing more is read meanwhile. Any fault closes the connection.

With SYNC_MASTER the master's answers wait for what is done here, so this is a hot module (types in the `.pxd`).
"""

import asyncio
import time
from collections import deque
from typing import cast

from headrace.errors import RemoteProtocolError
from headrace.protocol.ha_frame import HaFrame, HaFrameDecoder, encode_report
from ipc.bells import Bell
from store.config import StoreConfig
from store.errors import HaError
from store.ha.slave_log import SlaveLog

_RETRY_S = 0.01  # limit: how long a frame may wait for a file that is reserved


class MasterLink:
    """One connection: an `asyncio.Protocol`. `ended` has the reason once it has ended."""

    def __init__(self, config: StoreConfig, log: SlaveLog, bells: dict[str, Bell]) -> None:
        self._config = config
        self._log = log
        self._bells = bells
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._decoder = HaFrameDecoder()
        self._frames: deque[HaFrame] = deque()
        self._reported = -1
        self._last_read = self._last_report = time.monotonic()
        self._is_waiting = False
        self.ended: asyncio.Future[Exception] = self._loop.create_future()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The master sends nothing before the first report."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of another class
        self._report()

    def connection_lost(self, exc: Exception | None) -> None:
        """Publishes nothing more: what is not published is requested again."""
        self._end(exc or HaError("the connection to the master was lost"))

    def eof_received(self) -> None:
        """The master has closed its side."""
        self._end(HaError("the master closed the connection; see 'connection to slave closed' in the master's log"))

    def pause_writing(self) -> None:
        """Reports are a few bytes: the next one replaces those that wait."""

    def resume_writing(self) -> None:
        """The master reads again."""

    def data_received(self, data: bytes) -> None:
        """Frames, or parts of them."""
        self._last_read = time.monotonic()
        try:
            self._frames += self._decoder.feed(data)
            if not self._is_waiting:
                self._take_frames()
        except (HaError, RemoteProtocolError, OSError) as error:
            self._end(error)

    # ---- called by HaSlave

    def look_after(self) -> None:
        """Reports if the connection was quiet; closes it if the master is silent. Called periodically."""
        now = time.monotonic()
        if now - self._last_read > self._config.ha_housekeeping_interval / 1000:
            self._end(HaError("no data from the master within haHousekeepingInterval"))
        elif now - self._last_report > self._config.ha_send_heartbeat_interval / 1000:
            self._report()

    def close(self) -> None:
        """Closes the connection; nothing more is copied."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    # ---- copying

    def _take_frames(self) -> None:
        """Copies the frames that have room, publishes them, and reports. The others are tried again soon."""
        frames = self._frames
        while frames and self._take(frames[0]):
            frames.popleft()
        if self._log.publish_complete():
            self._bells["dispatch"].ring()
            self._bells["flush"].ring()
            if self._log.is_last_file:
                self._bells["housekeeper"].ring()
        # order: what is reported is published, and so kept if this role is killed
        if self._log.copied_offset != self._reported:
            self._report()
        if bool(frames) != self._is_waiting:
            self._wait(is_waiting=bool(frames))
        if frames:
            self._bells["housekeeper"].ring()
            self._loop.call_later(_RETRY_S, self._try_again)

    def _wait(self, *, is_waiting: bool) -> None:
        self._is_waiting = is_waiting
        if self._transport is not None:
            (self._transport.pause_reading if is_waiting else self._transport.resume_reading)()

    def _try_again(self) -> None:
        if self._transport is None:
            return
        self._last_read = time.monotonic()  # the master is silent because nothing is read
        try:
            self._take_frames()
        except (HaError, OSError) as error:
            self._end(error)

    def _take(self, frame: HaFrame) -> bool:
        """Copies a frame; False if no file is reserved for it. Raises HaError."""
        log, offset = self._log, frame.physical_offset
        if log.copied_offset == 0 and frame.data:
            log.request_file(offset)
            if not log.has_begun_at(offset):
                return False
            log.begin_at(offset)
        if log.copied_offset:
            log.check_offset(offset)  # compat: heartbeats are checked too
        if frame.data:
            if not log.has_room(offset, len(frame.data)):
                return False
            log.append(offset, frame.data)
        return True

    def _report(self) -> None:
        if self._transport is not None:
            self._reported = self._log.copied_offset
            self._last_report = time.monotonic()
            self._transport.write(encode_report(self._reported))

    def _end(self, reason: Exception) -> None:
        self.close()
        if not self.ended.done():
            self.ended.set_result(reason)
