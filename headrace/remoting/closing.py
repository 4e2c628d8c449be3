"""Closes many connections at once, with a time limit."""

import asyncio
import logging
from collections.abc import Collection

from headrace.remoting.channel import Channel


async def close_all(channels: Collection[Channel], reason: str, grace_s: float, level: int = logging.INFO) -> None:
    """Closes all channels; those with unsent bytes after `grace_s` seconds are aborted."""
    closing = list(channels)
    for channel in closing:
        channel.close(reason, level)
    if not closing:
        return
    waiting = [asyncio.ensure_future(channel.wait_closed()) for channel in closing]
    _, left = await asyncio.wait(waiting, timeout=grace_s)
    if left:
        for channel in closing:
            channel.abort(f"{reason}; peer not reading")
        await asyncio.wait(left)
