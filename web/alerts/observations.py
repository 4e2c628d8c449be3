"""Observations: the value of every subject of every kind of rule, from samples."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from web.alerts.rules import What
from web.cluster.runtime_figures import RuntimeFigures
from web.sampling.sample import Sample

DEAD_LETTERS_S: Final = 600.0
RESTARTS_S: Final = 900.0
_SPACING_S: Final = 30.0  # limit: points that are kept of each counter: 30

Observed = Mapping[What, Mapping[str, float]]


class Observations:
    """Remembers counters for some minutes, to see how much they grew."""

    def __init__(self) -> None:
        self._dead = _Growth("group.dead/", DEAD_LETTERS_S)
        self._restarts = _Growth("role.restarts/", RESTARTS_S)

    def observe(self, sample: Sample, values: Mapping[str, float], disk_days: Mapping[str, float]) -> Observed:
        """`values` are the sample's of the history; `disk_days` by broker, until writes are refused."""
        return {
            What.LAG_MESSAGES: _named(values, "group.lag/"),
            What.LAG_TIME: {group: ms / 1000 for group, ms in _named(values, "group.time/").items()},
            What.DEAD_LETTERS: self._dead.follow(sample.time_s, values),
            What.DISK_DAYS: disk_days,
            What.BROKER_DOWN: {broker.key: float(broker.problem is not None) for broker in sample.brokers},
            What.WRITES_REFUSED: {
                broker.key: float(RuntimeFigures(broker.runtime).refusal is not None)
                for broker in sample.brokers
                if broker.is_master and broker.problem is None
            },
            What.ROLE_RESTARTS: self._restarts.follow(sample.time_s, values),
        }


class _Growth:
    """How much counters with a prefix grew within a time. A counter that shrinks begins anew."""

    def __init__(self, prefix: str, span_s: float) -> None:
        self._prefix = prefix
        self._span_s = span_s
        self._known: dict[str, deque[tuple[float, float]]] = {}

    def follow(self, now_s: float, values: Mapping[str, float]) -> dict[str, float]:
        """The growth by name. A counter that is new now has grown by nothing: the past is not known."""
        current = _named(values, self._prefix)
        for gone in self._known.keys() - current.keys():
            if now_s - self._known[gone][-1][0] > self._span_s:
                del self._known[gone]
        grown = {}
        for name, value in current.items():
            points = self._known.setdefault(name, deque([(now_s, value)]))
            if value < points[-1][1]:
                points.clear()
            if not points or now_s - points[-1][0] >= _SPACING_S:
                points.append((now_s, value))
            while len(points) > 1 and points[1][0] <= now_s - self._span_s:
                points.popleft()
            grown[name] = value - points[0][1]
        return grown


def _named(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
