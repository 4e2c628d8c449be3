"""Charts: which series a page shows, and over which time. The browser draws them from `/api/v1/history` (`web/static/charts.js`).

A page puts `charts_of(visit, Chart(…), …)` into its data as `charts`, and its template calls `{{ charts(view.data.charts) }}` of `charts.html`.
The range is the argument `range` of the address, so that a chart can be sent to a colleague.
"""

from typing import Final

import msgspec

from web.errors import Invalid
from web.routes import Visit

RANGES: Final = {"1h": 3_600, "6h": 21_600, "1d": 86_400, "7d": 604_800, "30d": 2_592_000}
"""Names in addresses, and seconds."""
MOST_LINES: Final = 6  # limit: colours that can be told apart
_MOST_LINKED: Final = (
    24  # limit: series of one address, which servers take up to 8 KiB; names have up to 255 characters
)
STORE_LATENCY: Final = "Store latency, 99th percentile"
FIRST_BROKERS: Final = "Showing the first {shown} of {total} brokers, by name."
FURTHEST_GROUPS: Final = "Showing the {shown} of {total} consumer groups with the largest lag."

RATE, NUMBER, BYTES, DURATION, LATENCY, SHARE = "rate", "number", "bytes", "duration", "latency", "share"
"""Units: how the browser shows values. A share is 0 to 1, a duration is in ms, and so is a latency, which is usually below a second."""


class Line(msgspec.Struct, frozen=True):
    """One line: a series of the history, and its label: English, a key of the translations, or a name."""

    series: str
    label: str
    is_name: bool = False
    """The label is a name, such as a topic's: it is not translated."""
    value: float | None = None
    """The current value if the page shows it elsewhere too: the chart begins with it, because samples are up to ten seconds older."""


class Chart(msgspec.Struct, frozen=True):
    """Lines with one scale."""

    title: str
    """English, a key of the translations."""
    unit: str
    lines: tuple[Line, ...]
    """All of them. A page draws the first MOST_LINES, says so with `cut`, and links to the others."""
    cut: str = FIRST_BROKERS
    """English, a key of the translations."""

    @property
    def drawn(self) -> tuple[Line, ...]:
        """The lines that have a colour each."""
        return self.lines[:MOST_LINES]

    @property
    def others(self) -> list[tuple[int, int, str]]:
        """The lines that are not drawn, in parts that an address can name: number of the first and the last, and their series."""
        return [
            (begin + 1, begin + len(part), ",".join(line.series for line in part))
            for begin in range(MOST_LINES, len(self.lines), _MOST_LINKED)
            for part in [self.lines[begin : begin + _MOST_LINKED]]
        ]

    def parts(self) -> list["Chart"]:
        """Charts of which each draws all its lines."""
        starts = range(0, len(self.lines), MOST_LINES)
        return [msgspec.structs.replace(self, lines=self.lines[begin : begin + MOST_LINES]) for begin in starts]


RANGE_ARGUMENT: Final = {"range": f"The time that charts show: {', '.join(RANGES)}. The values are at /history."}


class Charts(msgspec.Struct, frozen=True):
    """The charts of a page."""

    range: str
    seconds: int
    charts: tuple[Chart, ...]

    @property
    def groups(self) -> list[tuple[str, list[Chart]]]:
        """The charts that the browser reads with one request, after the names of all their series: usually all of a page."""
        groups: list[tuple[list[str], list[Chart]]] = []
        for chart in self.charts:
            names = [line.series for line in chart.drawn]
            if not groups or len({*groups[-1][0], *names}) > _MOST_LINKED:
                groups.append(([], []))
            groups[-1][0].extend(name for name in names if name not in groups[-1][0])
            groups[-1][1].append(chart)
        return [(",".join(names), charts) for names, charts in groups]


def charts_of(visit: Visit, *charts: Chart) -> Charts:
    """The charts over the time that the address asks for, by default an hour. Raises Invalid."""
    chosen = visit.arguments.get("range", "1h")
    if chosen not in RANGES:
        raise Invalid("range={chosen} is not one of {choices}", chosen=repr(chosen[:80]), choices=", ".join(RANGES))
    return Charts(chosen, RANGES[chosen], tuple(chart for chart in charts if chart.lines))
