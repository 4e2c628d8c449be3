"""`/api/v1/history`: points of series as uPlot takes them, for charts and programs.

    GET /api/v1/history?series=cluster.in,topic.in/Orders&seconds=3600
    {"step": 10, "times": [1769140800, …], "series": {"cluster.in": [12.5, null, …], …}}

`series` are names of `web.history.series`, separated by commas; null is a gap. `seconds` is how far back the chart reaches, at most 30 days.
`GET /api/v1/history/names?prefix=topic.in/` lists the recorded series.
"""

import asyncio
import time
from typing import Any, Final

import msgspec
from sanic import HTTPResponse, Request

from web.errors import Invalid
from web.history.history_file import HistoryFile
from web.history.requested_series import requested_series
from web.history.tiers import TIERS
from web.routes import Access, Raw, Visit

MOST_SECONDS: Final = TIERS[-1].span_s
_MOST_LISTED: Final = 10_000


class HistoryRoutes:
    """Reads the file."""

    def __init__(self, file: HistoryFile) -> None:
        self._file = file

    def routes(self) -> list[Raw]:
        """The routes of this room."""
        return [
            Raw(
                "/api/v1/history",
                self._chart,
                Access.VIEWER,
                summary="Show points of recorded series.",
                arguments={
                    "series": "Names of series, separated by commas.",
                    "seconds": f"How far back the points reach, 1 to {MOST_SECONDS}; the default is {TIERS[0].span_s}.",
                },
            ),
            Raw(
                "/api/v1/history/names",
                self._names,
                Access.VIEWER,
                summary="List the recorded series.",
                arguments={"prefix": "How their names begin."},
            ),
        ]

    async def _chart(self, _request: Request, visit: Visit) -> HTTPResponse:
        names = requested_series(visit)
        text = visit.arguments.get("seconds", str(TIERS[0].span_s))
        if not (text.isascii() and text.isdecimal() and 0 < len(text) < 9 and 0 < int(text) <= MOST_SECONDS):
            raise Invalid(
                "seconds={text}: expected a whole number from 1 to {most}", text=repr(text[:40]), most=MOST_SECONDS
            )
        now_s = time.time()
        chart = await asyncio.to_thread(self._file.read, names, now_s - int(text), now_s, now_s)
        return _json({"step": chart.step_s, "times": chart.times, "series": chart.series})

    async def _names(self, _request: Request, visit: Visit) -> HTTPResponse:
        found = await asyncio.to_thread(self._file.names, visit.arguments.get("prefix", ""))
        return _json({"names": found[:_MOST_LISTED], "total": len(found)})


def _json(body: dict[str, Any]) -> HTTPResponse:
    headers = {"Cache-Control": "no-store"}
    return HTTPResponse(msgspec.json.encode(body), content_type="application/json", headers=headers)
