"""What a comparison measured, as a section of bench/RESULTS.md, and which goals it missed."""

import math
import platform
import statistics
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
from loads import FIGURES, SINGLE, Load  # type: ignore[import-not-found]  # bench/ is not a package

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
    errors: int = 0
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


class Report:
    """A Markdown section, `lines`, and the goals that were not reached, `missed`, a line each."""

    def __init__(self, rounds: dict[str, list[Round]], loads: dict[str, Load], seconds: float) -> None:
        """`rounds`: by server; those of the same number were measured one after the other, and are compared."""
        self.missed: list[str] = []
        self._rounds = rounds
        self._is_comparison = len(rounds) > 1
        self.lines = [
            f"## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {commit()}", "", *machine(),
            f"Timed part of each load: {seconds:g} s.", "",
            row(
                "", *(f"{TITLES[name]} {n + 1}" for name in rounds for n in range(len(rounds[name]))),
                *(["ratio", "of rounds", "goal"] if self._is_comparison else []),
            ),
            "|---|" + "---:|" * (sum(map(len, rounds.values())) + 3 * self._is_comparison),
        ]  # fmt: skip
        for name, (words, shape, goal) in SINGLE.items():
            values = {
                server: [one.single[name] for one in done if name in one.single] for server, done in rounds.items()
            }
            if any(values.values()):
                self._add_row(words, values, shape, goal, is_more_better=False)
        for key, load in loads.items():
            self._add_load(key, load, loads)
        notes = sorted({note for done in rounds.values() for one in done for note in one.notes})
        self.lines += ["", *(f"- {note}" for note in notes)]
        if self._is_comparison:
            self.lines.append(
                "Ratio: Headrace to Apache, median of the rounds, and the least and the largest. Rates: more is better; the rest: less is better."
            )
            self.lines += (
                ["", *(f"- Goal missed: {one}" for one in self.missed)] if self.missed else ["All goals were reached."]
            )

    def _add_load(self, key: str, load: Load, loads: dict[str, Load]) -> None:
        for figure, (words, shape) in FIGURES.items():
            title = f"**{load.title}**: {words}" if figure == "rate" else words
            values = {
                server: [float(getattr(one.cells[key], figure)) for one in done]
                for server, done in self._rounds.items()
            }
            self._add_row(title, values, shape, load.goals.get(figure), is_more_better=figure == "rate", of=load.title)
        if load.without in loads:
            parts = {
                server: [part_of(one.cells[key], one.cells[load.without]) for one in done]
                for server, done in self._rounds.items()
            }
            self._add_row(f"part of the rate of: {loads[load.without].title}", parts, ".2f", None, is_more_better=True)
            goal = load.goals.get("part")
            if goal is not None and HEADRACE in parts and statistics.median(parts[HEADRACE]) < goal:
                self.missed.append(
                    f"{load.title}: {statistics.median(parts[HEADRACE]):.2f} of the rate without, goal {goal:.2f}"
                )

    def _add_row(
        self,
        title: str,
        values: dict[str, list[float]],
        shape: str,
        goal: float | None,
        *,
        is_more_better: bool,
        of: str = "",
    ) -> None:
        cells = [format(value, shape) for each in values.values() for value in each]
        if self._is_comparison:
            ratios = [
                ours / theirs
                for theirs, ours in zip(values[REFERENCE], values[HEADRACE], strict=True)
                if theirs and ours
            ]
            if ratios:
                ratio = statistics.median(ratios)
                cells += [f"**{ratio:.2f}**", f"{min(ratios):.2f}-{max(ratios):.2f}"]
            else:
                cells += ["-", "-"]
            cells.append("" if goal is None else f"{'>=' if is_more_better else '<='} {goal:.2g}")
            if goal is not None and not (ratios and (ratio >= goal if is_more_better else ratio <= goal)):
                what = f"{of}: {title}" if of and of not in title else title.replace("**", "")
                self.missed.append(f"{what}: {f'{ratio:.2f} times' if ratios else 'not measured'}, goal {cells[-1]}")
        self.lines.append(row(title, *cells))


def part_of(cell: Figures, whole: Figures) -> float:
    """The rate as a part of another; 0 if that was not measured."""
    return cell.rate / whole.rate if whole.rate else 0.0


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
