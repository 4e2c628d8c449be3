"""The ha role's loop: one asyncio loop for all slaves, and on a slave for its master.

Without connections it sleeps without requesting a bell. The loop watches the bell's descriptor and the stop pipe.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from ssl import SSLContext

import uvloop

from ipc.role_context import RoleContext
from store.commit_log.reader import CommitLogReader
from store.config import StoreConfig
from store.ha.master import HaMaster, LinkTls
from store.ha.slave import HaSlave
from store.ha.slave_log import SlaveLog
from store.paths import StorePaths

logger = logging.getLogger(__name__)

_ROUND_S = 0.2  # limit: the role's heartbeats are more frequent than those on a connection
_FAREWELL_S = 3.0  # limit: how long slaves may take to acknowledge the last records before a stop


def run(
    context: RoleContext,
    config: StoreConfig,
    paths: StorePaths,
    host: str,
    port: int,
    make_tls: Callable[[], LinkTls] | None = None,
    make_context: Callable[[], SSLContext | None] = lambda: None,
    *,
    copies_log: bool,
) -> None:
    """Serves slaves, and with `copies_log` copies the log of a master, until told to stop. Raises OSError if it cannot listen.

    `make_tls`: TLS of slaves that connect, called when the first one uses it; `make_context`: that of the connection to the master.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_Ha(context, config, paths, make_tls, make_context, copies_log=copies_log).run(host, port))


class _Ha:
    def __init__(
        self,
        context: RoleContext,
        config: StoreConfig,
        paths: StorePaths,
        make_tls: Callable[[], LinkTls] | None,
        make_context: Callable[[], SSLContext | None],
        *,
        copies_log: bool,
    ) -> None:
        assert context.bell is not None
        self._context = context
        self._bell = context.bell
        self._config = config
        self._control = context.control
        self._reader = CommitLogReader(paths, config, context.control)
        self._master = HaMaster(config, context.control, self._reader, context.instance.bells["broker"], make_tls)
        self._make_context = make_context
        self._log = SlaveLog(context.control, config, paths) if copies_log else None
        self._is_push_coming = False
        self._stop = asyncio.Event()

    async def run(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._bell.fd, self._take_ring)
        loop.add_reader(self._context.stop_fd, self._stop.set)
        actual = await self._master.listen(host, port)
        logger.info("listening for slaves host=%s port=%d role=%s", host, actual, self._config.broker_role)
        following = self._follow()
        self._context.running()
        try:
            while not self._stop.is_set():
                if following is not None and following.done():
                    following.result()
                    following = None
                await self._round()
            loop.remove_reader(self._context.stop_fd)
            self._context.take_stop_order()
            await self._take_leave()
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            await self._master.stop()
            loop.remove_reader(self._bell.fd)
            self._bell.woke()
            self._reader.close()
            if self._log is not None:
                self._log.close()

    def _follow(self) -> "asyncio.Task[None] | None":
        if self._log is None:
            return None
        slave = HaSlave(self._config, self._log, self._context.instance.bells, self._make_context)
        return asyncio.create_task(slave.follow())

    async def _round(self) -> None:
        """What is due at times; written data is sent when the bell rings."""
        self._context.beat()
        self._reader.release_deleted()
        if self._log is not None:
            self._log.release_deleted()
        self._push()
        self._master.look_after()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ROUND_S):
                await self._stop.wait()

    def _take_ring(self) -> None:
        self._bell.drain()
        self._push()

    def _push(self) -> None:
        """Sends new data; then the bell will ring, or this is called again if there is more."""
        self._bell.woke()
        wrote = self._control.wrote_offset
        self._master.push()
        if self._master.slave_count or self._log is not None:
            self._bell.prepare_sleep()
            if self._control.wrote_offset != wrote:  # order: after prepare_sleep, see ipc.bells
                self._bell.woke()
                self._push_soon()

    def _push_soon(self) -> None:
        if not self._is_push_coming:
            self._is_push_coming = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_push_coming = False
        self._push()

    async def _take_leave(self) -> None:
        """The broker has stopped, so the log is complete: sends the rest to slaves."""
        deadline = asyncio.get_running_loop().time() + _FAREWELL_S
        while not self._master.have_all_acknowledged() and asyncio.get_running_loop().time() < deadline:
            self._context.beat()
            self._master.push()
            await asyncio.sleep(_ROUND_S / 10)
