"""What a comparison measured, as a section of bench/RESULTS.md, and which goals it missed."""

import math
import platform
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
from loads import FIGURES, MORE_IS_BETTER, SINGLE, Load  # type: ignore[import-not-found]  # bench/ is not a package

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "RESULTS.md"
REFERENCE, HEADRACE = "reference", "headrace"
TITLES = {REFERENCE: "Apache", HEADRACE: "Headrace"}


@dataclass
class Figures:
    """The measurements of one cell: a server, a load, a round."""

    rate: float = 0
    cpu_us: float = 0
    p50_us: float = 0
    p99_us: float = 0
    accepted: float = 0
    """The acknowledged part of the messages that were offered."""
    acknowledged: int = 0
    """Messages, of the warm-up too."""
    unanswered: int = 0
    """Messages that may be stored as well: the load ended before their answers came."""
    note: str = ""


@dataclass
class Round:
    """All measurements of one server in one round."""

    single: dict[str, float] = field(default_factory=dict)
    cells: dict[str, Figures] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


Values = dict[str, list[float | None]]
"""Of each server, one a round. None or 0: not measured."""


class Report:
    """A Markdown section, `lines`, and the goals that were not reached, `missed`, a line each."""

    def __init__(self, rounds: dict[str, list[Round]], loads: dict[str, Load], seconds: float) -> None:
        """`rounds`: by server; those of the same number were measured one after the other, and are compared."""
        self.missed: list[str] = []
        self._rounds = rounds
        self._is_comparison = len(rounds) > 1
        count = max(map(len, rounds.values()))
        columns = [*(TITLES[name] for name in rounds), *(["ratio"] if self._is_comparison else []), "goal"]
        self.lines = [
            f"## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {commit()}", "", *machine(),
            f"Timed part of each load: {seconds:g} s. {count} {'round' if count == 1 else 'rounds'}.", "",
            row("", *columns), "|---|" + "---:|" * len(columns),
        ]  # fmt: skip
        for name, single in SINGLE.items():
            values = self._values(lambda one, name=name: one.single.get(name))  # type: ignore[misc]
            if any(map(any, values.values())):
                self._add_row(single.words, single.words, values, single.shape, Goal(False, single.goal, single.own))
        for key, load in loads.items():
            self._add_load(key, load, loads)
        notes = sorted({note for done in rounds.values() for one in done for note in one.notes})
        self.lines += ["", *(f"- {note}" for note in notes)]
        self.lines.append(
            "Medians of the rounds, and in brackets the least and the largest. Ratio: Headrace to Apache, round by round."
            " A goal in times is that of the ratio, any other one that of Headrace's own figure; either is enough."
        )
        self.lines += ["", *(f"- Goal missed: {one}" for one in self.missed or ["none"])]

    def _add_load(self, key: str, load: Load, loads: dict[str, Load]) -> None:
        for number, figure in enumerate(load.figures):
            words = load.words(figure)
            title = words if number else f"**{load.title}**: {words}"
            goal = Goal(figure in MORE_IS_BETTER, load.goals.get(figure), load.own.get(figure))
            self._add_row(title, f"{load.title}: {words}", self._figures(key, figure), FIGURES[figure][1], goal)
        if load.without not in loads:
            return
        for figure in load.parts or ("rate",):
            words = f"{load.words(figure)}, as a part of: {loads[load.without].title}"
            own, whole = self._figures(key, figure), self._figures(load.without, figure)
            parts: Values = {
                server: [a / b if a and b else None for a, b in zip(own[server], whole[server], strict=True)]
                for server in self._rounds
            }
            goal = Goal(figure in MORE_IS_BETTER, own=load.parts.get(figure))
            self._add_row(words, f"{load.title}: {words}", parts, ".2f", goal)

    def _values(self, value: Callable[[Round], float | None]) -> Values:
        return {server: [value(one) for one in done] for server, done in self._rounds.items()}

    def _figures(self, key: str, figure: str) -> Values:
        return self._values(lambda one: float(getattr(one.cells[key], figure)) if key in one.cells else None)

    def _add_row(self, title: str, full_title: str, values: Values, shape: str, goal: "Goal") -> None:
        cells = [spread(each, shape) for each in values.values()]
        found = []
        """For each kind of goal that can be looked at: the figure, and whether it misses the goal."""
        if self._is_comparison:
            ratios = [b / a if a and b else None for a, b in zip(values[REFERENCE], values[HEADRACE], strict=True)]
            cells.append(spread(ratios, ".2f"))
            if goal.ratio is not None:
                found.append((f"{cells[-1]} times", goal.is_missed(ratios, goal.ratio)))
        if HEADRACE in values and goal.own is not None:
            own = values[HEADRACE]
            found.append((spread(own, shape), goal.is_missed(own, goal.own)))
        if found and all(is_missed for _, is_missed in found):
            self.missed.append(f"{full_title}: {', '.join(figure for figure, _ in found)}, goal {goal.words}")
        self.lines.append(row(title, *cells, goal.words))


@dataclass(frozen=True)
class Goal:
    """What a row should reach. With both goals, one of them: the ratio needs no certain machine, the own figure no certain version of Apache's broker."""

    is_more_better: bool
    ratio: float | None = None
    """Of Headrace to Apache."""
    own: float | None = None
    """Of Headrace's own figure."""

    @property
    def words(self) -> str:
        """How the table has it."""
        sign = ">=" if self.is_more_better else "<="
        ratio = [] if self.ratio is None else [f"{sign} {self.ratio:.2g} times"]
        return " or ".join(ratio + ([] if self.own is None else [f"{sign} {self.own:,}"]))

    def is_missed(self, values: list[float | None], goal: float) -> bool:
        """Whether the median does not reach the goal, or there is none."""
        found = [value for value in values if value]
        middle = statistics.median(found) if found else None
        return middle is None or (middle < goal if self.is_more_better else middle > goal)


def spread(values: list[float | None], shape: str) -> str:
    """The median, and the least and the largest value in brackets; `-` without values."""
    found = [value for value in values if value]
    if not found:
        return "-"
    middle = format(statistics.median(found), shape)
    return middle if len(found) == 1 else f"{middle} ({min(found):{shape}}-{max(found):{shape}})"


def geometric_mean(values: list[float]) -> float:
    """The geometric mean, or 0 if one of the values is 0."""
    return math.exp(sum(map(math.log, values)) / len(values)) if all(value > 0 for value in values) else 0.0


def row(*cells: str) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def commit() -> str:
    """The measured commit, marked if files differ from it."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run(
        [*git, "rev-parse", "--short=10", "HEAD"], check=False, capture_output=True, text=True
    ).stdout.strip()
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no"], check=False, capture_output=True, text=True
    ).stdout
    return f"commit {name or 'unknown'}{' with changes' if changed.strip() else ''}"


def machine() -> list[str]:
    """Processor, memory, kernel, versions."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "?",
    )
    java = subprocess.run(["java", "-version"], check=False, capture_output=True, text=True).stderr.splitlines()[0]
    compiled = sorted(
        path.name.split(".")[0]
        for folder in ("broker", "store", "headrace", "ipc")
        for path in (ROOT / folder).rglob("*.so")
    )
    return [
        f"{psutil.cpu_count()} x {model}, {psutil.virtual_memory().total / 2**30:.0f} GiB, Linux {platform.release()}.",
        f"Python {platform.python_version()}; {java.replace(chr(34), '')}. Apache RocketMQ 4.9.7, heap 1 GiB.",
        f"Compiled modules: {', '.join(compiled) or 'none'}.",
    ]
