"""One chart with its figures as a table, for a closer look, for screen readers and for spreadsheets."""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from web.errors import Invalid
from web.history.disk_outlook import ReadChart
from web.history.history_file import MOST_NAMES_READ
from web.pages.charts import BYTES, DURATION, NUMBER, RANGE_ARGUMENT, RATE, SHARE, Chart, Line, charts_of
from web.routes import Query, Route, View, Visit
from web.tables.table import Column, Kind, Table

_UNITS: Final = (NUMBER, RATE, BYTES, DURATION, SHARE)


class PointRow(msgspec.Struct, frozen=True):
    """The value of one series at one time; None: the sample failed."""

    at: int
    series: str
    value: float | None


_COLUMNS: Final[tuple[Column[PointRow], ...]] = (
    Column("at", "Time", Kind.TIME),
    Column("series", "Series"),
    Column("value", "Value", Kind.RATE),
)


class ChartPages:
    """The page of one chart."""

    def __init__(self, read_chart: ReadChart, now_s: Callable[[], float]) -> None:
        self._read_chart = read_chart
        self._now_s = now_s

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query(
                "/charts",
                self.show,
                "Show recorded time series.",
                section="Dashboard",
                arguments={
                    "series": "Names of recorded series, separated by commas; /history/names lists them.",
                    "unit": f"How values are shown: {', '.join(_UNITS)}.",
                    **RANGE_ARGUMENT,
                },
            )
        ]

    async def show(self, visit: Visit) -> View:
        """The series that the address names, separated by commas."""
        names = [name for name in visit.arguments.get("series", "").split(",") if name]
        if not 0 < len(names) <= MOST_NAMES_READ:
            raise Invalid(f"series: expected 1 to {MOST_NAMES_READ} names separated by commas, got {len(names)}")
        unit = visit.arguments.get("unit", NUMBER)
        if unit not in _UNITS:
            raise Invalid(f"unit={unit[:80]!r} is not one of {', '.join(_UNITS)}")
        charts = charts_of(visit, Chart("Chart", unit, tuple(Line(name, name, is_name=True) for name in names)))
        now_s = self._now_s()
        found = await asyncio.to_thread(self._read_chart, names, now_s - charts.seconds, now_s, now_s)
        rows = [
            PointRow(at * 1000, name, column[index])
            for index, at in enumerate(found.times)
            for name, column in found.series.items()
        ]
        table = Table(
            "points",
            PointRow,
            rows,
            _COLUMNS,
            search=("series",),
            sort="-at",
            empty="There is no data for this period yet.",
        )
        return View("Chart", "chart.html", {"charts": charts, "step": found.step_s}, [table])
