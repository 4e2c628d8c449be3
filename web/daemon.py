"""The console's process: binds its port, runs its loop with a heartbeat, and stops on request.

Called in the forked child of the appliance, or by `headrace console`; this file does not depend on roles. Sanic runs in this loop: it
installs no signal handlers and starts no processes.
"""

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import Callable
from typing import Any, Final

import uvloop

from web.application import Console, ConsoleSettings, make_console
from web.serving.connections import Connection

BEAT_INTERVAL_S: Final = 0.25
STOP_GRACE_S: Final = 2.0  # limit: requests in progress; streams of events are not awaited
_NICENESS: Final = 5  # limit: pages must not take the processor from brokers of the same machine
_MEMORY: Final = 1 << 30  # limit: a request that needs more fails
_KILL_EARLY: Final = "500"  # limit: nor memory: the kernel ends the console before a broker

logger = logging.getLogger(__name__)


def spare_brokers() -> None:
    """Limits this process, so that brokers of the same machine come first: processor, memory, and which process the kernel ends first."""
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_KILL_EARLY)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


def run(
    beat: Callable[[], None],
    ready: Callable[[], None],
    stop_fd: int,
    listener: socket.socket,
    settings: ConsoleSettings,
) -> None:
    """Serves on `listener` until `stop_fd` becomes readable.

    `ready` is called once, when browsers are answered; `beat` at least every quarter of a second while the loop turns.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(beat, ready, stop_fd, listener, settings))


async def _serve(
    beat: Callable[[], None],
    ready: Callable[[], None],
    stop_fd: int,
    listener: socket.socket,
    settings: ConsoleSettings,
) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_reader(stop_fd, stopped.set)
    try:
        async with serving(listener, make_console(settings)):
            ready()
            while not stopped.is_set():
                beat()
                try:
                    await asyncio.wait_for(stopped.wait(), BEAT_INTERVAL_S)
                except TimeoutError:
                    pass
    finally:
        loop.remove_reader(stop_fd)
    logger.info("console stopped")


@contextlib.asynccontextmanager
async def serving(listener: socket.socket, console: Console) -> Any:
    """Serves a console on a listening socket as long as the context lasts. For tests too."""
    async with console.cluster:
        server: Any = await console.app.create_server(
            sock=listener, return_asyncio_server=True, access_log=False, protocol=Connection
        )
        await server.startup()
        await server.start_serving()
        tasks = [asyncio.ensure_future(task()) for task in console.tasks]
        try:
            yield server
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _close(server)
            await console.finish_changes(STOP_GRACE_S)
            console.close()


async def _close(server: Any) -> None:
    server.close()
    for connection in list(server.connections):
        connection.close_if_idle()
    try:
        async with asyncio.timeout(STOP_GRACE_S):
            await server.wait_closed()
    except TimeoutError:
        for connection in list(server.connections):
            connection.abort()
        await server.wait_closed()
