"""The life of a client object: new, running, closed; started once, closed as often as one likes, and an asynchronous context manager.

A start that fails, that is cancelled, or that `close` puts an end to, leaves it closed, and nothing behind. After `close` it is of no more use: make
another.

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
    """What producers, consumers and Admin have in common: a configuration, an instance, a life."""

    def __init__(self, config: ConfigLike = None) -> None:
        self._config = client_config(config)
        self._state = "new"
        self._opened: ClientInstance | None = None
        self._starting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def config(self) -> ClientConfig:
        """The settings it was made with."""
        return self._config

    @property
    def is_running(self) -> bool:
        """Whether it was started and not closed."""
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
        return StateError(f"{self!r} is {self._state}; it has to be started, and not closed", self._state)

    async def start(self) -> Self:
        """Starts it; returns itself. Raises StateError if it was started before, or is closed before it runs, ConfigError, NoNameServer.

        No server need be there yet: they are asked when they are needed.
        """
        if self._state != "new":
            raise StateError(f"{self!r} is {self._state}; it can be started once", self._state)
        self._state = "starting"
        # A task of its own: `close` can end it, whoever has called this.
        self._starting = asyncio.get_running_loop().create_task(self._start())
        # A caller who has given up does not ask what became of it.
        self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            await self.close()
            if (caller := asyncio.current_task()) is not None and caller.cancelling():
                raise
            # It was closed before the task had done its first step.
            raise self._closed_early() from None
        return self

    async def close(self) -> None:
        """Finishes what is under way, takes leave of the brokers, closes the connections. May be called more than once, and while it starts."""
        if self._state == "new":
            self._state = "closed"
        elif self._state == "starting":
            self._state = "closing"
            assert self._starting is not None
            self._starting.cancel()
        elif self._state == "running":
            self._state = "closing"
            # A task of its own: a caller that is cancelled, or gives up, does not leave it half closed.
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
            # order: from here on nobody may end this task any more.
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
            # What it waited for last has kept the news to itself.
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
        """What starting is beyond having an instance."""

    @abstractmethod
    async def _end(self, instance: ClientInstance) -> None:
        """What closing is before leaving the instance."""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
