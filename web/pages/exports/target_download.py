"""The download of a target whose export has ended, as a tar archive that is read and sent a piece at a time."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from sanic import HTTPResponse, Request

from web.accounts.audit_log import STARTED, AuditLog
from web.errors import Invalid, NotFound, QueryFailed
from web.pages.downloads import Downloads
from web.pages.exports.export_reads import ExportReads, unreadable
from web.pages.exports.target_archive import TargetArchive
from web.pages.exports.target_files import Target
from web.routes import Visit

T = TypeVar("T")

ARCHIVE_TYPE: Final = "application/x-tar"
ACTION: Final = "export.download"
_AT_ONCE: Final = 2  # limit: the disk that the brokers write to, and a thread each


def is_finished(target: Target | None) -> bool:
    """Whether a target has data, and nothing that still changes it."""
    return target is not None and bool(target.commits) and not (target.problem or target.owner or target.is_interrupted)


class TargetDownload:
    """Serves downloads. Each is in the audit log before it begins."""

    def __init__(self, reads: ExportReads, audit: AuditLog) -> None:
        self._reads = reads
        self._audit = audit
        self._downloads = Downloads(_AT_ONCE)

    async def answer(self, request: Request, visit: Visit) -> HTTPResponse | None:
        """The archive. Raises NotFound, Invalid, TooOften, QueryFailed; what fails after the beginning breaks the download off."""
        name = visit.path["target"]
        target = await self._finished(name)
        with self._downloads.place():
            entry = self._audit.add(visit.actor, visit.address, ACTION, name, STARTED)
            outcome, sent = "failed: the browser disconnected, or the console was stopped", None
            try:
                archive = await _in_thread(TargetArchive.list, target)
                sent = {"files": len(archive.files), "bytes": archive.length}
                await _send(request, archive)
                outcome = "done"
            except OSError as error:
                outcome = f"failed: {error}"
                raise unreadable(error) from error
            except QueryFailed as error:
                outcome = f"failed: {error}"
                raise
            finally:
                self._audit.finish(entry, outcome, after=sent)
        return None

    async def _finished(self, name: str) -> Path:
        """The folder of the target, which is finished."""
        exports = await self._reads.exports()
        folder = Path(exports.folder)
        target: Target | None = await self._reads.read(lambda files: files.find(folder, name))
        if target is None or not (target.commits or target.problem):
            raise NotFound("nothing was exported to {name}", "Check its name in the list of exports.", name=name[:80])
        if target.problem:
            raise QueryFailed(target.problem, "Check the folder of the target on the appliance's machine.")
        if target.owner or (exports.running is not None and exports.running.target == name):
            raise Invalid("the export to {name} is running", "Wait until it has ended.", name=name)
        if not is_finished(target):
            raise Invalid("the last export to {name} was interrupted", "Export new messages to it first.", name=name)
        return folder / name


async def _send(request: Request, archive: TargetArchive) -> None:
    headers = {
        "Content-Disposition": f'attachment; filename="{archive.target.name}.tar"',
        "Content-Length": str(archive.length),
        "Cache-Control": "no-store",
    }
    response: Any = await request.respond(content_type=ARCHIVE_TYPE, headers=headers)
    pieces, left = archive.pieces(), archive.length
    while left:
        piece = await _in_thread(next, pieces)
        await response.send(piece)
        left -= len(piece)  # at 0 the response is complete, and the browser may disconnect


async def _in_thread(run: Callable[..., T], *arguments: Any) -> T:
    """What `run` returns. Its thread has ended when this returns, even if it is cancelled: a disk that does not answer takes one thread for each place."""
    running = asyncio.ensure_future(asyncio.to_thread(run, *arguments))
    try:
        return await asyncio.shield(running)
    finally:
        if not running.done():
            await asyncio.wait([running])
