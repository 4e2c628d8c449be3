"""Static files: read once, named with a part of their content's hash, so that browsers may keep them for ever."""

from pathlib import Path
from typing import Final

from sanic import HTTPResponse, Request

from web.errors import NotFound
from web.routes import Access, Raw, Visit
from web.serving.html import STATIC

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def static_files() -> list[Raw]:
    """The routes of the files in `web/static`."""
    known = {
        path.relative_to(STATIC).as_posix(): path
        for path in STATIC.rglob("*")
        if path.is_file() and path.suffix in _TYPES
    }

    async def answer(_request: Request, visit: Visit) -> HTTPResponse:
        path = known.get(visit.path["name"])
        if path is None:
            raise NotFound("file not found")
        return _file(path)

    return [Raw("/static/<name:path>", answer, Access.ANYONE)]


def _file(path: Path) -> HTTPResponse:
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return HTTPResponse(path.read_bytes(), content_type=_TYPES[path.suffix], headers=headers)
