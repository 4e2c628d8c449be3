"""One chart with its figures as a table, for a closer look, for screen readers and for spreadsheets."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from web.errors import Invalid
from web.history.disk_outlook import ReadChart
from web.history.requested_series import requested_series
from web.pages.charts import (
    BYTES,
    DURATION,
    LATENCY,
    NUMBER,
    RANGE_ARGUMENT,
    RATE,
    SHARE,
    STORE_LATENCY,
    Chart,
    Line,
    charts_of,
)
from web.paths import path_of
from web.routes import Query, Route, View, Visit
from web.tables.table import Column, Kind, Table

_KINDS: Final = {
    NUMBER: Kind.NUMBER,
    RATE: Kind.RATE,
    BYTES: Kind.BYTES,
    DURATION: Kind.DURATION,
    LATENCY: Kind.DURATION,
    SHARE: Kind.SHARE,
}
"""How the table shows values of a unit."""
_TITLES: Final = {
    "in": "Messages per second",
    "out": "Messages per second",
    "lag": "Lag",
    "time": "Time lag",
    "dead": "Dead letters",
    "disk": "Disk used",
    "p99": STORE_LATENCY,
    "behind": "Bytes that slaves have not copied",
}
"""By what a series counts: the part of its name between the first dot and the slash."""
_LABELS: Final = {"in": "Received", "out": "Delivered"}
_PAGES: Final = {"topic": "topics", "group": "groups"}


class PointRow(msgspec.Struct, frozen=True):
    """The value of one series at one time; None: the sample failed."""

    at: int
    series: str
    value: float | None
    label: str = ""
    """What the chart calls the series: English, or the name of its subject."""


def _columns(unit: str, lines: Mapping[str, Line]) -> tuple[Column[PointRow], ...]:
    def label(row: PointRow) -> tuple[str, dict[str, str]]:
        return ("{n}", {"n": row.label}) if lines[row.series].is_name else (row.label, {})

    return (
        Column("at", "Time", Kind.TIME),
        Column("series", "Series", says=label),
        Column(
            "value",
            "Value",
            _KINDS[unit],
            says=lambda row: ("{n} ms", {"n": 0}) if unit == LATENCY and row.value == 0 else None,
        ),
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
                    "unit": f"How values are shown: {', '.join(_KINDS)}.",
                    **RANGE_ARGUMENT,
                },
            )
        ]

    async def show(self, visit: Visit) -> View:
        """The series that the address names, separated by commas; several charts if they have more lines than there are colours."""
        names = requested_series(visit)
        unit = visit.arguments.get("unit", NUMBER)
        if unit not in _KINDS:
            raise Invalid("unit={unit} is not one of {choices}", unit=repr(unit[:80]), choices=", ".join(_KINDS))
        title, subject = _title(names), _subject(names)
        lines = {name: _line(name, subject) for name in names}
        charts = charts_of(visit, *Chart(title, unit, tuple(lines.values())).parts())
        now_s = self._now_s()
        found = await asyncio.to_thread(self._read_chart, names, now_s - charts.seconds, now_s, now_s)
        rows = [
            PointRow(at * 1000, name, column[index], lines[name].label)
            for index, at in enumerate(found.times)
            for name, column in found.series.items()
        ]
        table = Table(
            "points",
            PointRow,
            rows,
            _columns(unit, lines),
            search=("series", "label"),
            sort="-at",
            empty="There is no data for this period yet.",
        )
        data = {"charts": charts, "step": found.step_s, "page": _page(names)}
        return View(title, "chart.html", data, [table], subject)


def _parts(name: str) -> tuple[str, str, str]:
    """Of `topic.in/Orders`: topic, in, Orders."""
    counted, _, subject = name.partition("/")
    whose, _, what = counted.partition(".")
    return whose, what, subject


def _title(names: Sequence[str]) -> str:
    """What all series count, English; "Chart" if they count different things."""
    titles = {_TITLES.get(_parts(name)[1], "Chart") for name in names}
    return titles.pop() if len(titles) == 1 else "Chart"


def _subject(names: Sequence[str]) -> str:
    """The topic, group or broker of all series; empty if they have different ones or none."""
    subjects = {_parts(name)[2] for name in names}
    return subjects.pop() if len(subjects) == 1 else ""


def _line(name: str, shared: str) -> Line:
    """A series with its label, which leaves out the subject that all series share."""
    _, what, subject = _parts(name)
    if what in _LABELS and subject == shared:
        return Line(name, _LABELS[what])
    return Line(name, name if what in _LABELS else subject or name, is_name=True)


def _page(names: Sequence[str]) -> str:
    """The page of what the series count: a topic's, a group's, otherwise the dashboard."""
    whose, subject = {_parts(name)[0] for name in names}, _subject(names)
    section = _PAGES.get(next(iter(whose)), "") if len(whose) == 1 else ""
    return path_of(section, subject) if section and subject else "/"
