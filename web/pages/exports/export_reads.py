"""ExportReads: the exports that the appliance's supervisor knows, and their targets in the folder of exports."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from web.errors import NotFound, QueryFailed
from web.pages.exports.target_files import TargetFiles
from web.sampling.own_appliance import HOW_TO_EXPORT, NO_EXPORTS, OwnAppliance


class Run(msgspec.Struct, frozen=True):
    """A run, as the supervisor describes it."""

    id: int
    target: str
    format: str
    topics: list[str]
    state: str
    done_bytes: int
    total_bytes: int
    output: list[str]
    broker: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    ended_ms: int | None = None
    pid: int = 0

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self.state in {"running", "stopping"}


class Exports(msgspec.Struct, frozen=True):
    """The supervisor's answer."""

    folder: str
    brokers: list[str]
    """The names among which a request chooses; empty for the only broker."""
    runs: list[Run]
    """The newest first."""

    @property
    def running(self) -> Run | None:
        """The run in progress."""
        return next((run for run in self.runs if run.is_running), None)


class ExportReads:
    """What the pages of exports and the download read."""

    def __init__(self, own: OwnAppliance) -> None:
        self._own = own
        self._files = TargetFiles()
        self._turn = asyncio.Lock()
        self._reading: asyncio.Future[Any] | None = None

    async def exports(self) -> Exports:
        """The supervisor's answer. Raises NotFound without an appliance, QueryFailed."""
        if not self._own.exists:
            raise NotFound(NO_EXPORTS, HOW_TO_EXPORT)
        answer = await self._own.request({"command": "exports"})
        try:
            return msgspec.convert(answer, Exports)
        except msgspec.ValidationError as error:
            raise QueryFailed(
                "the supervisor sent an invalid answer: {error}", "Restart the appliance.", error=error
            ) from error

    async def read(self, read: Callable[[TargetFiles], Any]) -> Any:
        """Reads files in a thread, one page at a time: a folder that does not answer must not take one thread after the other. Raises QueryFailed."""
        async with self._turn:
            if self._reading is not None:
                await asyncio.wait([self._reading])
            self._reading = asyncio.ensure_future(asyncio.to_thread(read, self._files))
            try:
                return await asyncio.shield(self._reading)
            except OSError as error:
                raise unreadable(error) from error


def unreadable(error: OSError) -> QueryFailed:
    """A file or folder of exports cannot be read."""
    return QueryFailed(
        "cannot read {path}: {reason}",
        "Check the owner and mode of the folder.",
        path=error.filename,
        reason=error.strerror or error,
    )
