"""MessageStream: takes a push consumer's messages one by one, `async for message in consumer`.

Requesting the next message completes the previous one. Leaving the loop with an exception or `break` does not: that message is not committed, and is
redelivered to this or another member once the consumer is closed. Several loops may take messages at once.
"""

import asyncio
from collections import deque
from typing import Self, TypeAlias

from headrace.client.consuming.push.consume_result import ConsumeResult, LeftToQueue
from headrace.client.consuming.received_message import ReceivedMessage

Done: TypeAlias = "asyncio.Future[ConsumeResult | None]"
"""The result of a message; None: it is left to its queue."""


class MessageHandout:
    """Passes messages from the consumer's workers to the iterators."""

    def __init__(self) -> None:
        self._given: deque[tuple[ReceivedMessage, Done]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._taken: set[Done] = set()
        self._is_closed = False

    async def give(self, message: ReceivedMessage) -> ConsumeResult:
        """The consumer's handler: returns when the message is completed. Raises LeftToQueue if the consumer closes before."""
        if self._is_closed:
            raise LeftToQueue
        done: Done = asyncio.get_running_loop().create_future()
        self._given.append((message, done))
        self._wake()
        result = await done
        if result is None:
            raise LeftToQueue
        return result

    async def take(self) -> tuple[ReceivedMessage, Done] | None:
        """Returns the next message and the future to complete it with; None once the consumer is closed."""
        while not self._given:
            if self._is_closed:
                return None
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                # Another iterator must not miss the wake-up.
                if self._given:
                    self._wake()
                raise
            finally:
                if taker in self._takers:
                    self._takers.remove(taker)
        message, done = self._given.popleft()
        self._taken.add(done)
        done.add_done_callback(self._taken.discard)
        return message, done

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def close(self) -> None:
        """Ends all iteration; messages that are not completed are left to their queues."""
        self._is_closed = True
        waiting = [*(done for _, done in self._given), *self._taken]
        self._given.clear()
        for done in waiting:
            if not done.done():
                done.set_result(None)
        while self._takers:
            self._wake()


class MessageStream:
    """An asynchronous iterator over messages. Created by `aiter(consumer)`."""

    def __init__(self, handout: MessageHandout) -> None:
        self._handout = handout
        self._before: Done | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Returns the next message, however long it takes; completes the previous one."""
        if self._before is not None and not self._before.done():
            self._before.set_result(ConsumeResult.SUCCESS)
        self._before = None
        taken = await self._handout.take()
        if taken is None:
            raise StopAsyncIteration
        message, self._before = taken
        return message
