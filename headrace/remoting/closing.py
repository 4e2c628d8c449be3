"""Closing many connections at once, within a time."""

import asyncio
import logging
from collections.abc import Collection

from headrace.remoting.connection import Connection


async def close_all(
    connections: Collection[Connection], reason: str, grace_s: float, level: int = logging.INFO
) -> None:
    """Closes all connections; those that have not taken what was sent to them within `grace_s` seconds are aborted."""
    closing = list(connections)
    for connection in closing:
        connection.close(reason, level)
    if not closing:
        return
    waiting = [asyncio.ensure_future(connection.wait_closed()) for connection in closing]
    _, left = await asyncio.wait(waiting, timeout=grace_s)
    if left:
        for connection in closing:
            connection.abort(f"{reason}, and it does not read")
        await asyncio.wait(left)
