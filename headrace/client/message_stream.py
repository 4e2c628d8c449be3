"""MessageStream: the messages of a push consumer taken one by one, `async for message in consumer`.

Asking for the next message says that the one before is done with. Leaving the loop by an exception or `break` does not: that message is not
committed, and is given again, to this or another member, once the consumer is closed. Several tasks may iterate at once: each has its own.
"""

import asyncio
from collections import deque

from headrace.client.consume_result import ConsumeResult
from headrace.client.received_message import ReceivedMessage


class MessageStream:
    """An asynchronous iterator over messages. Made by `aiter(consumer)`."""

    def __init__(self) -> None:
        self._given: deque[tuple[ReceivedMessage, asyncio.Future[ConsumeResult]]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._open: dict[asyncio.Task[object] | None, asyncio.Future[ConsumeResult]] = {}
        self._is_closed = False

    async def give(self, message: ReceivedMessage) -> ConsumeResult:
        """The consumer's handler: returns when the message is done with."""
        done: asyncio.Future[ConsumeResult] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            # Neither done nor failed: the message stays with its queue until the consumer is closed.
            return await done
        self._given.append((message, done))
        self._wake()
        return await done

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def __aiter__(self) -> "MessageStream":
        return self

    async def __anext__(self) -> ReceivedMessage:
        task = asyncio.current_task()
        before = self._open.pop(task, None)
        if before is not None and not before.done():
            before.set_result(ConsumeResult.SUCCESS)
        while not self._given:
            if self._is_closed:
                raise StopAsyncIteration
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                # Another must not miss what this one was woken for.
                if taker.done() and self._given:
                    self._wake()
                raise
        message, done = self._given.popleft()
        self._open[task] = done
        if task is not None and len(self._open) > 1:
            self._open = {
                one: future for one, future in self._open.items() if one is None or not one.done() or one is task
            }
        return message

    def close(self) -> None:
        """Ends the iteration; messages not done with are left to their queues."""
        self._is_closed = True
        waiting = [done for _, done in self._given] + list(self._open.values())
        self._given.clear()
        for done in waiting:
            done.cancel()
        while self._takers:
            self._wake()
