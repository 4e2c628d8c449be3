"""Charts of the history: what an address selects, and the figures as a table."""

import asyncio
import html
import re
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from web.errors import Invalid
from web.history.history_file import Chart as Points
from web.pages.chart_page import ChartPages
from web.pages.charts import FIRST_BROKERS, Chart, Line, charts_of
from web.routes import Access, Visit
from web.serving.html import Templates
from web.tables.table import Kind
from web.translations import translator


def visit(**arguments: str) -> Visit:
    return Visit("", Access.VIEWER, "", {}, arguments)


def test_range_of_the_address_applies_to_all_charts_and_empty_charts_are_left_out() -> None:
    found = charts_of(visit(range="7d"), Chart("A", "rate", (Line("a", "a"),)), Chart("B", "rate", ()))
    assert (found.range, found.seconds, [chart.title for chart in found.charts]) == ("7d", 604_800, ["A"])
    assert charts_of(visit()).seconds == 3_600
    with pytest.raises(Invalid, match="range='99d' is not one of 1h, 6h"):
        charts_of(visit(range="99d"))


BROKERS = tuple(Line(f"broker.disk/b{number:02}", f"b{number:02}", is_name=True) for number in range(1, 36))


def test_chart_of_more_lines_than_colours_says_so_and_links_to_the_others() -> None:
    charts = charts_of(visit(range="7d"), Chart("Disk used", "share", BROKERS), Chart("Few", "share", BROKERS[:6]))
    page = Templates("/base")._environment.from_string(
        '{% from "charts.html" import charts with context %}{{ charts(all) }}'
    )
    text = page.render(t=translator("zh"), all=charts, path="/", visit=visit())
    assert re.findall("data-series=.broker.disk/(b..)", text) == [f"b0{number}" for number in range(1, 7)] * 2
    assert text.count("按名称显示 35 个 Broker 中的前 6 个。") == 1
    links = [html.unescape(link) for link in re.findall(r'class="item" href="([^"]+)"', text)]
    found = [parse_qs(urlsplit(link).query) for link in links]
    assert [(one["unit"], one["range"]) for one in found] == [(["share"], ["7d"])] * 2
    assert [one["series"][0].split(",")[0] for one in found] == ["broker.disk/b07", "broker.disk/b31"]
    assert sum(len(one["series"][0].split(",")) for one in found) == 35 - 6
    assert charts.charts[0].cut == FIRST_BROKERS


def test_charts_of_a_page_are_read_with_as_few_requests_as_fit_into_addresses() -> None:
    def chart(first: int, last: int) -> Chart:
        return Chart(f"{first}", "share", BROKERS[first:last])

    few = charts_of(visit(), chart(0, 2), chart(1, 3))
    assert [(read.split(","), len(charts)) for read, charts in few.groups] == [
        (["broker.disk/b01", "broker.disk/b02", "broker.disk/b03"], 2)
    ]
    many = charts_of(visit(), *(chart(first, first + 6) for first in range(0, 30, 6)))
    assert [(read.count(",") + 1, len(charts)) for read, charts in many.groups] == [(24, 4), (6, 1)]
    assert [one for _, charts in many.groups for one in charts] == list(many.charts)
    assert charts_of(visit()).groups == []


def test_links_to_the_others_fit_into_a_request() -> None:
    lines = tuple(Line(f"broker.behind/{number:03}{'x' * 252}", "", is_name=True) for number in range(200))
    others = Chart("A", "bytes", lines).others
    assert [first for first, _, _ in others] == list(range(7, 200, 24))
    assert others[-1][1] == 200
    assert max(len(quote(series)) for _, _, series in others) < 7_000


def test_page_of_a_chart_draws_every_series_in_a_colour_of_its_own() -> None:
    pages = ChartPages(lambda *_: Points(10, [], {}), lambda: 0.0)
    series = [line.series for line in BROKERS[6:20]]
    view = asyncio.run(pages.show(visit(series=",".join(series), unit="share")))
    drawn = [[line.series for line in chart.drawn] for chart in view.data["charts"].charts]
    assert [len(lines) for lines in drawn] == [6, 6, 2]
    assert [one for lines in drawn for one in lines] == series
    assert not any(chart.others for chart in view.data["charts"].charts)


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


def test_figures_have_the_labels_of_the_chart() -> None:
    names = "cluster.in,broker.disk/{a}"
    found = Points(10, [10], {name: [1.0] for name in names.split(",")})
    [table] = asyncio.run(ChartPages(lambda *_: found, lambda: 0.0).show(visit(series=names))).tables
    says = table.columns[1].says
    assert says is not None
    shown = [says(row) for row in table.rows]
    assert [translator("zh")(key, **values) for key, values in filter(None, shown)] == ["接收", "{a}"]


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
