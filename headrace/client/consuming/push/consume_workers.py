"""Workers: threads for handlers that are plain functions, tasks for coroutines; as many as the setting allows.

Both take work items from one queue and wake each other in a chain: a worker that takes an item and leaves another wakes one more worker. If the handler
is fast, the first worker has done everything before the second starts; if it waits, all are running after a few microseconds. So messages do not each
cost a task or a thread switch.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

logger = logging.getLogger(__name__)

W = TypeVar("W")

CLOSE_S: Final = 1.0
_TURN_S: Final = 0.005  # limit: how long one task may block the loop


class ThreadWorkers(Generic[W]):
    """Threads that run `work(item)`, which must not raise. They start with the first item."""

    def __init__(self, count: int, work: Callable[[W], None], name: str) -> None:
        self._count = count
        self._work = work
        self._name = name
        # A SimpleQueue wakes in a chain by itself, in C.
        self._pieces: SimpleQueue[W | None] = SimpleQueue()
        self._started = 0
        self._threads: list[threading.Thread] = []

    def put(self, piece: W) -> None:
        """Adds a work item."""
        if self._started < self._count:
            self._start()
        self._pieces.put(piece)

    def _start(self) -> None:
        while self._started < self._count:
            self._started += 1
            name = f"{self._name}-{self._started}"
            # Daemons: a handler that never returns must not prevent the program from ending.
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        get, work = self._pieces.get, self._work
        while (piece := get()) is not None:
            work(piece)

    def resize(self, count: int) -> None:
        """Changes the number of threads; surplus ones end when they are idle."""
        while self._started > count:
            self._started -= 1
            self._pieces.put(None)
        self._count = count
        if self._started:
            self._start()

    async def close(self) -> None:
        """Ends the threads; waits a moment for idle ones. A thread whose handler does not return is left alone."""
        for _ in range(self._started):
            self._pieces.put(None)
        self._started = self._count = 0
        end = time.monotonic() + CLOSE_S
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.002)


class TaskWorkers(Generic[W]):
    """Tasks that run `await work(item)`, which must not raise. They start when they are needed."""

    def __init__(
        self,
        count: int,
        work: Callable[[W], Awaitable[None]],
        start_task: Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"],
    ) -> None:
        self._count = count
        self._work = work
        self._start_task = start_task
        self._pieces: deque[W] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_waking = False

    def put(self, piece: W) -> None:
        """Adds a work item."""
        self._pieces.append(piece)
        self._wake()

    def _wake(self) -> None:
        if self._is_waking:
            return
        while self._idle:
            future = self._idle.popleft()
            if not future.done():
                self._is_waking = True
                future.set_result(None)
                return
        if len(self._tasks) < self._count:
            self._is_waking = True
            task = self._start_task(self._run(), "handler")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pieces, work = self._pieces, self._work
        while True:
            self._is_waking = False
            turn_ends = loop.time() + _TURN_S
            while pieces and len(self._tasks) <= self._count:
                piece = pieces.popleft()
                if pieces:
                    self._wake()
                await work(piece)
                if loop.time() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = loop.time() + _TURN_S
            if len(self._tasks) > self._count:
                self._wake()
                return
            idle: asyncio.Future[None] = loop.create_future()
            self._idle.append(idle)
            await idle

    def resize(self, count: int) -> None:
        """Changes the number of tasks; surplus ones end after their current item."""
        self._count = count
        for _ in range(len(self._tasks) - count):
            if self._idle:
                self._idle.popleft().set_result(None)
        if self._pieces:
            self._wake()

    async def close(self) -> None:
        """Cancels the tasks with their current items."""
        self._pieces.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
