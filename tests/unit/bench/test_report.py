"""The report of bench/compare.py: medians, ratios, and the three kinds of goals."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

BENCH = str(Path(__file__).resolve().parents[3] / "bench")
MODULES = ("compare", "full_memory", "loads", "report", "running", "servers")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module bench/report.py; bench/ is not a package."""
    monkeypatch.syspath_prepend(BENCH)
    import report  # noqa: PLC0415

    monkeypatch.setattr(report, "commit", lambda: "commit 0123456789")
    monkeypatch.setattr(report, "machine", lambda: ["A machine."])
    yield report
    for name in MODULES:
        sys.modules.pop(name, None)


def report_of(bench: Any, rounds: dict[str, list[dict[str, Any]]], **changes: Any) -> Any:
    """The report of a load, `one`, and `other`, the load that it is compared with if `without` says so. `rounds`: figures by row."""
    load = bench.Load("sends", "send", {}, 0, figures=("rate", "cpu_us"))
    measured = {
        server: [
            bench.Round(
                single=dict(one.get("single", {})),
                cells={key: bench.Figures(**cell) for key, cell in one.items() if key != "single"},
            )
            for one in done
        ]
        for server, done in rounds.items()
    }
    return bench.Report(measured, {"one": replace(load, **changes), "other": replace(load, title="others")}, 1)


def rates(*values: float) -> list[dict[str, Any]]:
    return [{"one": {"rate": value, "cpu_us": 1}} for value in values]


def line(report: Any, start: str) -> str:
    (found,) = (one for one in report.lines if one.startswith(f"| {start}"))
    return str(found)


def test_ratio_is_median_of_rounds_with_its_spread(bench: Any) -> None:
    report = report_of(bench, {"reference": rates(100, 100, 200), "headrace": rates(400, 500, 1200)}, goals={"rate": 5})
    assert line(report, "**sends**") == (
        "| **sends**: messages/s | 100 (100-200) | 500 (400-1,200) | 5.00 (4.00-6.00) | >= 5 times |"
    )
    assert report.missed == []


def test_ratio_below_its_goal_is_missed(bench: Any) -> None:
    report = report_of(bench, {"reference": rates(100), "headrace": rates(400)}, goals={"rate": 5})
    assert report.missed == ["sends: messages/s: 4.00 times, goal >= 5 times"]
    assert "- Goal missed: sends: messages/s: 4.00 times, goal >= 5 times" in report.lines


def test_bound_of_own_figure_does_not_need_apache(bench: Any) -> None:
    reached = report_of(bench, {"headrace": rates(1)}, own={"cpu_us": 1})
    missed = report_of(bench, {"headrace": rates(1)}, own={"cpu_us": 0.9})
    assert reached.missed == []
    assert missed.missed == ["sends: CPU, us a message: 1.00, goal <= 0.9"]


@pytest.mark.parametrize(("ratio", "own", "is_missed"), [(5, 300, False), (3, 500, False), (5, 500, True)])
def test_one_of_both_goals_is_enough(bench: Any, ratio: float, own: float, is_missed: bool) -> None:
    report = report_of(
        bench, {"reference": rates(100), "headrace": rates(400)}, goals={"rate": ratio}, own={"rate": own}
    )
    words = f">= {ratio} times or >= {own}"
    assert line(report, "**sends**") == f"| **sends**: messages/s | 100 | 400 | 4.00 | {words} |"
    assert report.missed == ([f"sends: messages/s: 4.00 times, 400, goal {words}"] if is_missed else [])


def test_part_of_another_row_is_compared_round_by_round(bench: Any) -> None:
    done = [{"one": {"rate": a}, "other": {"rate": b}} for a, b in ((50, 100), (180, 200))]
    report = report_of(bench, {"headrace": done}, without="other", parts={"rate": 0.8})
    words = "messages/s, as a part of: others"
    assert line(report, words) == f"| {words} | 0.70 (0.50-0.90) | >= 0.8 |"
    assert report.missed == [f"sends: {words}: 0.70 (0.50-0.90), goal >= 0.8"]


def test_cells_that_are_not_measured_are_dashes_and_miss_their_goals(bench: Any) -> None:
    only_ours = {"reference": [{}], "headrace": rates(400)}
    assert line(report_of(bench, only_ours), "**sends**") == "| **sends**: messages/s | - | 400 | - |  |"
    assert report_of(bench, only_ours).missed == []
    missed = report_of(bench, only_ours, goals={"rate": 5}, own={"p99_us": 1}, figures=("rate", "p99_us")).missed
    assert missed == ["sends: messages/s: - times, goal >= 5 times", "sends: p99 of a request, us: -, goal <= 1"]


def test_single_figure_has_its_bound(bench: Any) -> None:
    report = report_of(bench, {"headrace": [{"single": {"many-start": 3.5}}]})
    assert report.missed == ["50,000 queues: start after a clean stop, to first message, s: 3.50, goal <= 3"]


def test_every_row_compares_with_a_row_that_comes_before_it(bench: Any) -> None:
    import loads  # noqa: PLC0415

    names = list(loads.LOADS)
    for name, load in loads.LOADS.items():
        assert not load.without or names.index(load.without) < names.index(name)
        assert set(load.goals) | set(load.own) | set(load.parts) <= set(load.figures)
        assert bool(load.parts) <= bool(load.without)


def test_arguments_of_a_load_follow_from_what_was_measured(bench: Any) -> None:
    import compare  # noqa: PLC0415
    import loads  # noqa: PLC0415

    measured = bench.Round(cells={"pipelined": bench.Figures(rate=1000)})
    assert compare.offered(loads.LOADS["overload-150"], measured).arguments["rate"] == 1500
    assert compare.offered(loads.LOADS["pipelined"], measured) is loads.LOADS["pipelined"]
    assert compare.as_account_of(loads.LOADS["signed"], loads.FILLING).arguments["account"] == loads.ACCOUNT
    assert compare.with_keys(loads.QUERY, 7).arguments["keys"] == 7
