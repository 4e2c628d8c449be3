"""Charts of the history in Chromium, with a history that a test has written."""

import datetime as dt
import re
import time
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, Route, expect

from support.chromium import log_in
from support.console import PASSWORD, RunningConsole
from support.servers import wait_until
from web.history.history_file import HistoryFile

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console whose cluster does not answer: what charts show is in its history."""
    folder = tmp_path_factory.mktemp("charts")
    now = time.time()
    history = HistoryFile(folder / "history.db")
    for ago in range(2_000, 0, -10):
        if not 800 < ago < 1_200:
            ended = {"broker.p99/b": 75_000.0} if ago > 20 else {}
            history.add(now - ago, {"cluster.in": 100.0 + ago, "cluster.out": 50.0, "broker.p99/a": 0.0} | ended)
    history.close()
    with RunningConsole(folder) as console:
        console.administrator()
        yield console


def test_chart_shows_the_history_its_range_and_its_values_at_the_keyboard(console: RunningConsole, page: Page) -> None:
    history = HistoryFile(console.folder / "history.db")
    history.add(
        time.time(), {"cluster.in": 100.0, "cluster.out": 50.0}
    )  # present values, however long ago the history was made
    history.close()
    log_in(page, console.port, "/charts?series=cluster.in,cluster.out,never.recorded,broker.p99/b&unit=rate")
    chart = page.locator("[data-chart]")
    expect(chart.locator("canvas")).to_be_visible()
    expect(chart.get_by_role("listitem").nth(1)).to_have_text("Delivered now 50 · maximum 50")
    expect(chart.get_by_role("listitem").nth(2)).to_have_text("never.recorded no data yet")
    expect(chart.get_by_role("listitem").nth(3)).to_have_text("b maximum 75,000")  # it ended: it has no present value
    plot = chart.get_by_role("img")
    plot.focus()
    for _ in range(40):  # 400 s back, where the history has values however slow this machine is
        page.keyboard.press("ArrowLeft")
    expect(chart.get_by_role("listitem").nth(1)).not_to_contain_text("now")
    expect(chart.get_by_role("listitem").nth(1)).to_contain_text(" 50 · maximum 50")
    assert " 50 · maximum 50" in (plot.get_attribute("aria-label") or "")

    page.get_by_role("link", name="6 hours").click()
    expect(page.get_by_role("link", name="6 hours")).to_have_attribute("aria-current", "true")
    assert page.url.endswith("range=6h")
    expect(chart.locator("canvas")).to_be_visible()
    page.get_by_role("link", name="Series").click()  # sorting keeps the chart
    expect(page.get_by_role("link", name="6 hours")).to_have_attribute("aria-current", "true")


def test_chart_has_the_times_of_the_zone_that_the_user_chose(console: RunningConsole, page: Page) -> None:
    zone, browser = ZoneInfo("Asia/Kathmandu"), console.browser()
    browser.log_in("admin", PASSWORD)
    assert browser.send("/account/zone", {"zone": str(zone)}, "/account").status == 303
    log_in(page, console.port, "/charts?series=cluster.out&unit=rate")
    chart = page.locator("[data-chart]")
    expect(chart.locator("canvas")).to_be_visible()
    chart.get_by_role("img").focus()
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    item = chart.get_by_role("listitem")
    expect(item).to_have_text(re.compile(r"\d{4}-\d\d-\d\d\s\d\d:\d\d:\d\d\s50"))
    shown = re.search(r"\d{4}-\S+ \S+", item.inner_text().replace("\xa0", " "))
    assert shown is not None
    age_s = time.time() - dt.datetime.fromisoformat(shown[0]).replace(tzinfo=zone).timestamp()
    assert 0 < age_s < 3_600
    assert browser.send("/account/zone", {"zone": ""}, "/account").status == 303


def test_chart_is_drawn_anew_for_the_other_theme_and_width(console: RunningConsole, page: Page) -> None:
    log_in(page, console.port, "/charts?series=cluster.in&unit=rate")
    canvas = page.locator("[data-chart] canvas")
    expect(canvas).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Received")).to_contain_text("maximum")
    pixels = "canvas => canvas.toDataURL()"
    light = canvas.evaluate(pixels)
    page.get_by_role("button", name="Switch between light and dark").click()
    wait_until(lambda: canvas.evaluate(pixels) != light, 20, "the other colours")
    page.set_viewport_size({"width": 390, "height": 800})
    wait_until(lambda: canvas.evaluate("canvas => canvas.clientWidth") < 390, 20, "the narrow chart")
    wait_until(lambda: page.evaluate("document.documentElement.scrollWidth") <= 390, 20, "the narrow page")


def test_legend_has_the_value_of_the_page_until_there_is_a_newer_sample(console: RunningConsole, page: Page) -> None:
    now_s = int(time.time()) // 10 * 10
    points = {"times": [now_s - 10, now_s], "cluster.in": [5.0, 6.0], "cluster.out": [None, None]}

    def answer(route: Route) -> None:
        series = {name: points[name] for name in ("cluster.in", "cluster.out")}
        route.fulfill(json={"step": 10, "times": points["times"], "series": series})

    def with_values(route: Route) -> None:
        text = route.fetch().text()
        for name in ("cluster.in", "cluster.out"):
            text = text.replace(f'data-series="{name}"', f'data-series="{name}" data-value="7"')
        route.fulfill(body=text, content_type="text/html; charset=utf-8")

    page.route("**/api/v1/history?*", answer)
    log_in(page, console.port, "/charts?series=cluster.in,cluster.out&unit=rate")
    page.route("**/charts?*", with_values)
    page.goto(f"http://127.0.0.1:{console.port}/charts?series=cluster.in,cluster.out&unit=rate")
    items = page.locator("[data-chart]").get_by_role("listitem")
    expect(items.nth(0)).to_have_text("Received now 7 · maximum 7")
    expect(items.nth(1)).to_have_text("Delivered now 7 · maximum 7")  # it has no sample yet
    refresh = "document.dispatchEvent(new Event('visibilitychange'))"
    with page.expect_response("**/api/v1/history?*"):
        page.evaluate(refresh)
    expect(items.nth(0)).to_have_text("Received now 7 · maximum 7")  # the newest sample is still older than the page
    points.update({"times": [now_s, now_s + 10], "cluster.in": [6.0, 8.0]})
    page.evaluate(refresh)
    expect(items.nth(0)).to_have_text("Received now 8 · maximum 8")
    expect(items.nth(1)).to_have_text("Delivered no data yet")


def test_charts_of_a_page_share_a_request(console: RunningConsole, page: Page) -> None:
    asked: list[str] = []
    log_in(page, console.port, "/charts?series=a,b,c,d,e,f,cluster.in,cluster.out&unit=rate")
    page.on("request", lambda request: asked.append(request.url) if "/api/v1/history?" in request.url else None)
    page.reload()
    charts = page.locator("[data-chart]")
    expect(charts).to_have_count(2)
    expect(charts.nth(0).locator(".state")).to_have_text("There is no data for this period yet.")
    expect(charts.nth(1).locator("canvas")).to_be_visible()
    sources = set(charts.evaluate_all("charts => charts.map((chart) => new URL(chart.dataset.source, location).href)"))
    assert len(sources) == 1
    assert set(asked) == sources
    page.route("**/api/v1/history?*", lambda route: route.fulfill(body="no JSON"))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_text("The data could not be read:")).to_have_count(2)


def test_series_without_figures_says_so(console: RunningConsole, page: Page) -> None:
    log_in(page, console.port, "/charts?series=never.recorded&unit=number")
    expect(page.locator("[data-chart] .state")).to_have_text("There is no data for this period yet.")
    expect(page.get_by_role("listitem").filter(has_text="never.recorded")).to_have_text("never.recorded")  # once
    expect(page.locator("[data-chart] canvas")).to_have_count(0)


def test_latency_of_zero_is_in_milliseconds(console: RunningConsole, page: Page) -> None:
    log_in(page, console.port, "/charts?series=broker.p99/a&unit=latency")
    expect(page.get_by_role("listitem").filter(has_text="maximum")).to_contain_text("maximum 0 ms")
    expect(page.locator("tbody")).to_contain_text("0 ms")


def test_units_are_in_the_language_of_the_page(console: RunningConsole, page: Page) -> None:
    log_in(page, console.port, "/charts?series=broker.p99/a,broker.p99/b&unit=latency")
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("listitem").filter(has_text="最高 1 ")).to_have_text("b 最高 1 分钟 15 秒")
    expect(page.locator("tbody")).to_contain_text("1 分钟 15 秒")


def test_axis_is_as_narrow_as_its_values(console: RunningConsole, page: Page) -> None:
    log_in(page, console.port, "/charts?series=cluster.out&unit=number")
    over = page.locator("[data-chart] .u-over")
    expect(over).to_be_visible()
    assert over.evaluate("over => over.offsetLeft") < 50


def test_more_series_than_colours_are_drawn_in_several_charts(console: RunningConsole, page: Page) -> None:
    names = ["cluster.in", "cluster.out", *(f"broker.in/b{number}" for number in range(6))]
    log_in(page, console.port, f"/charts?series={','.join(names)}&unit=rate")
    expect(page.locator("[data-chart]")).to_have_count(2)
    expect(page.locator("[data-chart]").nth(1).locator(".state")).to_have_text("There is no data for this period yet.")
    colours = [
        figure.locator(".swatch").evaluate_all("all => all.map((one) => getComputedStyle(one).backgroundColor)")
        for figure in page.locator("[data-chart]").all()
    ]
    assert [len(set(one)) for one in colours] == [6, 2]
    assert not any("rgba(0, 0, 0, 0)" in one for one in colours)
