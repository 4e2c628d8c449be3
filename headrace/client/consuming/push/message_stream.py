"""MessageStream: the messages of a push consumer taken one by one, `async for message in consumer`.

Asking for the next message says that the one before is done with. Leaving the loop by an exception or `break` does not: that message is not
committed, and is given again, to this or another member, once the consumer is closed. Several loops may take messages at once, each its own.
"""

import asyncio
from collections import deque
from typing import Self, TypeAlias

from headrace.client.consuming.push.consume_result import ConsumeResult, LeftToQueue
from headrace.client.consuming.received_message import ReceivedMessage

Done: TypeAlias = "asyncio.Future[ConsumeResult | None]"
"""What became of a message; None: nothing, it is left to its queue."""


class MessageHandout:
    """Messages on their way from the consumer's workers to those who iterate."""

    def __init__(self) -> None:
        self._given: deque[tuple[ReceivedMessage, Done]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._taken: set[Done] = set()
        self._is_closed = False

    async def give(self, message: ReceivedMessage) -> ConsumeResult:
        """The consumer's handler: returns when the message is done with. Raises LeftToQueue when the consumer closes before."""
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
        """The next message, and what to tell when it is done with; None once the consumer is closed."""
        while not self._given:
            if self._is_closed:
                return None
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                # Another must not miss what this one was woken for.
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
        """Ends all iteration; messages not done with are left to their queues."""
        self._is_closed = True
        waiting = [*(done for _, done in self._given), *self._taken]
        self._given.clear()
        for done in waiting:
            if not done.done():
                done.set_result(None)
        while self._takers:
            self._wake()


class MessageStream:
    """An asynchronous iterator over messages. Made by `aiter(consumer)`."""

    def __init__(self, handout: MessageHandout) -> None:
        self._handout = handout
        self._before: Done | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message, however long it takes; the one before is done with."""
        if self._before is not None and not self._before.done():
            self._before.set_result(ConsumeResult.SUCCESS)
        self._before = None
        taken = await self._handout.take()
        if taken is None:
            raise StopAsyncIteration
        message, self._before = taken
        return message
