"""SyncClient: a client of `headrace` that may be called from any thread; the base of the generated classes in `clients.py`."""

import concurrent.futures
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from headrace.client.cluster.lifecycle import ClientObject
from headrace.client.sending.producer_settings import ProducerSettings
from headrace.client.settings import ClientConfig
from headrace.model.message import Message
from headrace.sync.engine import shared_engine
from headrace.sync.slots import Slots

C = TypeVar("C", bound=ClientObject)
T = TypeVar("T")


class SyncClient(Generic[C]):
    """Calls the asynchronous client in the engine's loop, and waits for it. May be shared by threads."""

    def __init__(self, client: C) -> None:
        self._client = client
        self._engine = shared_engine()
        settings = getattr(client, "settings", None)
        if isinstance(settings, ProducerSettings):
            self._slots = Slots(settings.max_in_flight, settings.max_in_flight_bytes)

    def __repr__(self) -> str:
        return repr(self._client)

    @property
    def config(self) -> ClientConfig:
        """The configuration that the client was created with."""
        return self._client.config

    @property
    def is_running(self) -> bool:
        """Whether it has been started and not closed."""
        return self._client.is_running

    @property
    def client_id(self) -> str:
        """The id by which brokers know the client. Raises StateError unless it is running."""
        return self._client.client_id

    def start(self) -> Self:
        """Starts the client and returns it. Raises StateError if it was started before or is closed while it starts, ConfigError, NoNameServer."""
        self._run(self._started())
        return self

    async def _started(self) -> None:
        await self._client.start()
        self._engine.opened(self._client)

    def close(self) -> None:
        """Completes what is in flight, unregisters from the brokers, closes the connections. May be called repeatedly, and during the start."""
        self._run(self._client.close())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._engine.run(coroutine)

    def _submit(
        self, coroutine: Coroutine[Any, Any, T], sent: Message | Sequence[Message], wait: bool
    ) -> "concurrent.futures.Future[T]":
        size = len(sent.body) if isinstance(sent, Message) else sum(len(message.body) for message in sent)
        try:
            # The engine's own thread must not wait for what only it can do.
            self._slots.acquire(size, wait=wait and not self._engine.is_own_thread)
        except BaseException:
            coroutine.close()
            raise
        try:
            future = self._engine.submit(coroutine)
        except BaseException:
            self._slots.release(size)
            raise
        future.add_done_callback(lambda _: self._slots.release(size))
        return future

    def _call(self, function: Callable[[], T]) -> T:
        return self._engine.call(function)

    def _iterate(self, begin: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        items = self._call(begin)

        async def take() -> T:
            return await anext(items)

        while True:
            try:
                yield self._run(take())
            except StopAsyncIteration:
                return
