"""Requests that wait for the reply of another program (client spec 2.12): who waits, by correlation id."""

import asyncio
import logging

from headrace.model import properties as names
from headrace.model.message import MessageExt

logger = logging.getLogger(__name__)


class Replies:
    """The futures of requests under way in one instance."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}

    def expect(self, correlation_id: str) -> "asyncio.Future[MessageExt]":
        """The future of the reply to a request."""
        future: asyncio.Future[MessageExt] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return future

    def forget(self, correlation_id: str) -> None:
        """Nobody waits any more."""
        self._waiting.pop(correlation_id, None)

    def arrived(self, reply: MessageExt) -> None:
        """Hands a reply to who waits for it; one that comes too late is logged."""
        correlation_id = reply.properties.get(names.CORRELATION_ID, "")
        future = self._waiting.get(correlation_id)
        if future is None or future.done():
            logger.warning("reply dropped, nobody waits for it correlation_id=%s", correlation_id)
        else:
            future.set_result(reply)
