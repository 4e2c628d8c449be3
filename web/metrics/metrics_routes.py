"""`/metrics`: without a login from this machine; from elsewhere with the token in a file of the console's folder."""

import hmac
import logging
from pathlib import Path

from sanic import HTTPResponse, Request

from web.metrics.exposition import CONTENT_TYPE, Exposition
from web.routes import Access, Raw, Visit
from web.sampling.sampler import Sampler

logger = logging.getLogger(__name__)


class MetricsRoutes:
    """Serves the exposition. Other machines must send the contents of `token_file` as a bearer token; without the file they get nothing."""

    def __init__(self, sampler: Sampler, token_file: Path) -> None:
        self._exposition = Exposition(sampler)
        self._token_file = token_file

    def routes(self) -> list[Raw]:
        """The route of this room."""
        return [Raw("/metrics", self._metrics, Access.ANYONE)]

    async def _metrics(self, request: Request, visit: Visit) -> HTTPResponse:
        if not visit.is_local and not self._has_token(request):
            return HTTPResponse(
                f"send the token as a bearer token; an administrator creates it in {self._token_file.name} in the console's folder\n",
                status=401,
                content_type="text/plain; charset=utf-8",
                headers={"WWW-Authenticate": "Bearer"},
            )
        text = await self._exposition.scrape(exporter_names=visit.arguments.get("compat") == "exporter")
        return HTTPResponse(text, content_type=CONTENT_TYPE)

    def _has_token(self, request: Request) -> bool:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return False
        try:
            token = self._token_file.read_bytes().strip()
        except FileNotFoundError:
            return False
        except OSError as error:
            logger.error("metrics token unreadable path=%s error=%r", self._token_file, str(error))
            return False
        return bool(token) and hmac.compare_digest(given.strip().encode(), token)
