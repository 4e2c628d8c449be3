"""Replies: requests that wait for the reply of another program, by correlation id (client spec 2.12)."""

import asyncio
import logging

from headrace.model import properties as names
from headrace.model.message import MessageExt

logger = logging.getLogger(__name__)


class Replies:
    """The futures of one instance's requests."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}

    def expect(self, correlation_id: str) -> "asyncio.Future[MessageExt]":
        """Returns the future of the reply to a request."""
        future: asyncio.Future[MessageExt] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return future

    def forget(self, correlation_id: str) -> None:
        """Stops waiting for a reply."""
        self._waiting.pop(correlation_id, None)

    def arrived(self, reply: MessageExt) -> None:
        """Completes the request that a reply belongs to. A late reply is logged."""
        correlation_id = reply.properties.get(names.CORRELATION_ID, "")
        future = self._waiting.get(correlation_id)
        if future is None or future.done():
            logger.warning("reply dropped, no request is waiting for it correlation_id=%s", correlation_id)
        else:
            future.set_result(reply)
