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
STORE_LATENCY: Final = "Store latency, 99th percentile"

RATE, NUMBER, BYTES, DURATION, SHARE = "rate", "number", "bytes", "duration", "share"
"""Units: how the browser shows values. A share is 0 to 1, a duration is in ms."""


class Line(msgspec.Struct, frozen=True):
    """One line: a series of the history, and its label: English, a key of the translations, or a name."""

    series: str
    label: str
    is_name: bool = False
    """The label is a name, such as a topic's: it is not translated."""


class Chart(msgspec.Struct, frozen=True):
    """Lines with one scale."""

    title: str
    """English, a key of the translations."""
    unit: str
    lines: tuple[Line, ...]


RANGE_ARGUMENT: Final = {"range": f"The time that charts show: {', '.join(RANGES)}. The values are at /history."}


class Charts(msgspec.Struct, frozen=True):
    """The charts of a page."""

    range: str
    seconds: int
    charts: tuple[Chart, ...]


def charts_of(visit: Visit, *charts: Chart) -> Charts:
    """The charts over the time that the address asks for, by default an hour. Raises Invalid."""
    chosen = visit.arguments.get("range", "1h")
    if chosen not in RANGES:
        raise Invalid("range={chosen} is not one of {choices}", chosen=repr(chosen[:80]), choices=", ".join(RANGES))
    return Charts(chosen, RANGES[chosen], tuple(chart for chart in charts if chart.lines))
