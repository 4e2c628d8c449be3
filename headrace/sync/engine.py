"""The engine of the synchronous clients: one event loop in a background thread, shared by all clients of the process.

It starts with the first client and lives as long as the process. A forked child starts its own with its first client; using a client that was created
before the fork raises StateError. At exit the clients that are still open are closed.
"""

import asyncio
import atexit
import concurrent.futures
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, Protocol, TypeVar

from headrace.errors import StateError

T = TypeVar("T")

EXIT_TIMEOUT_S: Final = 5.0


class Closable(Protocol):
    """What is closed at exit: an asynchronous client."""

    async def close(self) -> None:
        """Closes it; may be called twice."""


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 (faster, if it is installed)
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _Call(Generic[T]):
    """A coroutine that a thread waits for; lighter than a concurrent.futures.Future."""

    __slots__ = ("_coroutine", "_done", "_task")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the coroutine. Runs in the loop."""
        self._task = loop.create_task(self._coroutine)
        self._task.add_done_callback(self._finish)

    def _finish(self, _task: "asyncio.Task[T]") -> None:
        self._done.release()

    def wait(self) -> T:
        """Returns the result. Runs in the waiting thread."""
        self._done.acquire()
        assert self._task is not None
        return self._task.result()

    def cancel(self) -> None:
        """Cancels the coroutine. Runs in the loop."""
        if self._task is not None:
            self._task.cancel()


class Engine:
    """A loop in a thread that starts with the first call."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = _new_loop()
        self._calls: deque[_Call[Any]] = deque()
        self._is_woken = False
        self._open: weakref.WeakSet[Closable] = weakref.WeakSet()
        self._thread = threading.Thread(target=self._loop.run_forever, name="headrace", daemon=True)
        self._thread.start()

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is in the loop's thread."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Starts a coroutine in the loop and returns its future. Raises StateError in a forked child, and in the loop's own thread."""
        self._check_process(coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop and waits for it. An interrupt (Ctrl-C) cancels it."""
        if self.is_own_thread:
            coroutine.close()
            message = "a synchronous client was called in its engine's own thread, by a hook or an `async def` handler; use a plain function there"
            raise StateError(message, "engine")
        self._check_process(coroutine)
        call = _Call(coroutine)
        self._calls.append(call)
        # order: appended before the flag is read, reset before the calls are taken: no call is missed. One wake-up serves many threads.
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._start_calls)
        try:
            return call.wait()
        except (KeyboardInterrupt, SystemExit):
            self._loop.call_soon_threadsafe(call.cancel)
            raise

    def _start_calls(self) -> None:
        self._is_woken = False
        while self._calls:
            self._calls.popleft().start(self._loop)

    def _check_process(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        if os.getpid() != self._pid:
            coroutine.close()
            message = f"this client was created in process {self._pid}, before a fork; create one in this process"
            raise StateError(message, "forked")

    def call(self, function: Callable[[], T]) -> T:
        """Calls a plain function in the loop's thread, where the clients live."""

        async def called() -> T:
            return function()

        return self.run(called())

    def opened(self, client: Closable) -> None:
        """Registers a client to close at exit. Runs in the loop."""
        self._open.add(client)

    def close_all(self) -> None:
        """Closes the clients that are still open, concurrently, within a few seconds. Errors are ignored: nobody can handle them any more."""

        async def close_each() -> None:
            await asyncio.gather(*(client.close() for client in self._open), return_exceptions=True)

        # In the loop's thread: an interpreter that shuts down starts no new threads (Python 3.12).
        concurrent.futures.wait([asyncio.run_coroutine_threadsafe(close_each(), self._loop)], EXIT_TIMEOUT_S)


_shared: Engine | None = None
_lock = threading.Lock()


def shared_engine() -> Engine:
    """Returns the process's engine."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = Engine()
            atexit.register(_shared.close_all)
        return _shared


def _forget() -> None:
    global _shared, _lock
    if _shared is not None:
        atexit.unregister(_shared.close_all)
    _shared = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
