"""Charts of the history: what an address selects, and the figures as a table."""

import asyncio

import pytest

from web.errors import Invalid
from web.history.history_file import Chart as Points
from web.pages.chart_page import ChartPages
from web.pages.charts import Chart, Line, charts_of
from web.routes import Access, Visit
from web.tables.table import Kind


def visit(**arguments: str) -> Visit:
    return Visit("", Access.VIEWER, "", {}, arguments)


def test_range_of_the_address_applies_to_all_charts_and_empty_charts_are_left_out() -> None:
    found = charts_of(visit(range="7d"), Chart("A", "rate", (Line("a", "a"),)), Chart("B", "rate", ()))
    assert (found.range, found.seconds, [chart.title for chart in found.charts]) == ("7d", 604_800, ["A"])
    assert charts_of(visit()).seconds == 3_600
    with pytest.raises(Invalid, match="range='99d' is not one of 1h, 6h"):
        charts_of(visit(range="99d"))


def test_figures_have_a_row_for_each_time_and_series_and_gaps_without_a_value() -> None:
    asked: list[tuple[list[str], float, float]] = []

    def read(names: list[str], begin_s: float, end_s: float, _now_s: float) -> Points:
        asked.append((names, begin_s, end_s))
        return Points(60, [940, 1000], {"a": [1.5, None], "b": [2.0, 3.0]})

    view = asyncio.run(ChartPages(read, lambda: 100_000.0).show(visit(series="a,b", range="6h", unit="rate")))
    assert asked == [(["a", "b"], 78_400.0, 100_000.0)]
    assert [(row.at, row.series, row.value) for row in view.tables[0].rows] == [
        (940_000, "a", 1.5),
        (940_000, "b", 2.0),
        (1_000_000, "a", None),
        (1_000_000, "b", 3.0),
    ]


@pytest.mark.parametrize(
    ("series", "unit", "title", "subject", "page", "labels", "kind"),
    [
        ("cluster.in,cluster.out", "rate", "Messages per second", "", "/", ["Received", "Delivered"], Kind.RATE),
        ("topic.in/A/B", "rate", "Messages per second", "A/B", "/topics/A%2FB", ["Received"], Kind.RATE),
        ("topic.in/A,topic.in/B", "rate", "Messages per second", "", "/", ["topic.in/A", "topic.in/B"], Kind.RATE),
        ("group.time/billing", "duration", "Time lag", "billing", "/groups/billing", ["billing"], Kind.DURATION),
        ("broker.disk/a,broker.disk/b", "share", "Disk used", "", "/", ["a", "b"], Kind.SHARE),
        ("cluster.in,group.lag/x", "number", "Chart", "", "/", ["Received", "x"], Kind.NUMBER),
    ],
)
def test_page_of_a_chart_has_its_title_its_labels_its_unit_and_a_way_back(
    series: str, unit: str, title: str, subject: str, page: str, labels: list[str], kind: Kind
) -> None:
    pages = ChartPages(lambda *_: Points(10, [], {}), lambda: 0.0)
    view = asyncio.run(pages.show(visit(series=series, unit=unit)))
    [chart] = view.data["charts"].charts
    assert (view.title, view.subject, view.data["page"]) == (title, subject, page)
    assert [line.label for line in chart.lines] == labels
    assert view.tables[0].columns[-1].kind is kind


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ({}, "expected 1 to 64 names"),
        ({"series": ",".join(map(str, range(65)))}, "got 65"),
        ({"series": "a", "unit": "<b>"}, "unit='<b>' is not one of"),
        ({"series": "a", "range": "-1"}, "range='-1' is not one of"),
    ],
)
def test_invalid_addresses_are_refused(arguments: dict[str, str], cause: str) -> None:
    pages = ChartPages(lambda *_: Points(10, [], {}), lambda: 0.0)
    with pytest.raises(Invalid, match=cause):
        asyncio.run(pages.show(visit(**arguments)))
