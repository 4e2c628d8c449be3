"""ClientObject: the life cycle of clients: started once, closed any number of times, and usable as an asynchronous context manager.

A client whose start fails, is cancelled, or is interrupted by `close`, is closed and leaves nothing behind. A closed client cannot be used again.

    new ──► starting ──► running ──► closing ──► closed
      └─────────┴── closing ──────────────────────►┘
"""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from headrace.client.cluster.instance import ClientInstance
from headrace.client.settings import ClientConfig, ConfigLike, client_config
from headrace.errors import StateError


class ClientObject(ABC):
    """The base class of producers, consumers and Admin: a configuration, an instance, a life cycle."""

    def __init__(self, config: ConfigLike = None) -> None:
        self._config = client_config(config)
        self._state = "new"
        self._opened: ClientInstance | None = None
        self._starting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def config(self) -> ClientConfig:
        """The configuration that the client was created with."""
        return self._config

    @property
    def is_running(self) -> bool:
        """Whether it has been started and not closed."""
        return self._state == "running"

    @property
    def client_id(self) -> str:
        """The id by which brokers know the client. Raises StateError unless it is running."""
        return self._instance.client_id

    @property
    def _instance(self) -> ClientInstance:
        if self._opened is None or self._state not in ("running", "starting", "closing"):
            raise self._not_running()
        self._opened.check_usable()
        return self._opened

    def _not_running(self) -> StateError:
        return StateError(f"{self!r} is {self._state}; start it first, and do not use it after close()", self._state)

    async def start(self) -> Self:
        """Starts the client and returns it. Raises StateError if it was started before or is closed while it starts, ConfigError, NoNameServer.

        Servers need not be up yet: they are contacted when they are needed.
        """
        if self._state != "new":
            raise StateError(f"{self!r} is {self._state}; a client can be started only once", self._state)
        self._state = "starting"
        # In a task of its own: `close` can cancel it, whoever called this.
        self._starting = asyncio.get_running_loop().create_task(self._start())
        # Retrieves the exception if the caller has given up.
        self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            await self.close()
            if (caller := asyncio.current_task()) is not None and caller.cancelling():
                raise
            # It was closed before the task made its first step.
            raise self._closed_early() from None
        return self

    async def close(self) -> None:
        """Completes what is in flight, unregisters from the brokers, closes the connections. May be called repeatedly, and during the start."""
        if self._state == "new":
            self._state = "closed"
        elif self._state == "starting":
            self._state = "closing"
            assert self._starting is not None
            self._starting.cancel()
        elif self._state == "running":
            self._state = "closing"
            # In a task of its own: a caller that is cancelled does not leave the client half closed.
            self._closing = asyncio.get_running_loop().create_task(self._finish())
        if self._closing is not None:
            await asyncio.shield(self._closing)
        elif self._starting is not None:
            await asyncio.wait([self._starting])
            self._state = "closed"

    async def _start(self) -> None:
        try:
            self._opened = await self._open()
            await self._begin(self._opened)
        except BaseException as error:
            was_closed = self._state == "closing"
            # order: from here on nothing may cancel this task.
            self._state = "closing"
            try:
                if self._opened is not None:
                    await self._opened.close()
            finally:
                self._state = "closed"
            if was_closed:
                raise self._closed_early() from error
            raise
        if self._state == "closing":
            # The last await swallowed the cancellation.
            await self._finish()
            raise self._closed_early()
        self._state = "running"

    def _closed_early(self) -> StateError:
        return StateError(f"{self!r} was closed while it was starting", "closed")

    async def _finish(self) -> None:
        assert self._opened is not None
        try:
            await self._end(self._opened)
        finally:
            await self._opened.close()
            self._state = "closed"

    async def _open(self) -> ClientInstance:
        return await ClientInstance.open(self._config)

    @abstractmethod
    async def _begin(self, instance: ClientInstance) -> None:
        """Starts what a client has beyond its instance."""

    @abstractmethod
    async def _end(self, instance: ClientInstance) -> None:
        """Closes what a client has beyond its instance."""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
