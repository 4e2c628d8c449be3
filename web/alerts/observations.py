"""Observations: the value of every subject of every kind of rule, from samples."""

from collections import defaultdict, deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from headrace.model import names
from web.alerts.rules import What
from web.cluster.runtime_figures import RuntimeFigures
from web.sampling.sample import BrokerSample, Sample

DEAD_LETTERS_S: Final = 600.0
RESTARTS_S: Final = 900.0
_SPACING_S: Final = 30.0  # limit: points that are kept of each counter: 30

Observed = Mapping[What, Mapping[str, float]]


class Observations:
    """Remembers counters for some minutes, to see how much they grew."""

    def __init__(self) -> None:
        self._dead: dict[str, _Growth] = {}
        """By broker: one that answers again has no new dead letters for that reason."""
        self._old_dead: dict[str, set[str]] = {}
        """By broker: groups that had a dead-letter topic in its first sample. When their dead letters were stored is not known."""
        self._restarts = _Growth(RESTARTS_S)

    def observe(self, sample: Sample, values: Mapping[str, float], disk_days: Mapping[str, float]) -> Observed:
        """`values` are the sample's of the history; `disk_days` by broker, until writes are refused."""
        return {
            What.LAG_MESSAGES: _named(values, "group.lag/"),
            What.LAG_TIME: {group: ms / 1000 for group, ms in _named(values, "group.time/").items()},
            What.DEAD_LETTERS: self._new_dead_letters(sample),
            What.DISK_DAYS: disk_days,
            What.BROKER_DOWN: {broker.key: float(broker.problem is not None) for broker in sample.brokers},
            What.WRITES_REFUSED: {
                broker.key: float(RuntimeFigures(broker.runtime).refusal is not None)
                for broker in sample.brokers
                if broker.is_master and broker.problem is None
            },
            What.ROLE_RESTARTS: {
                role: self._restarts.follow(sample.time_s, role, restarts, restarts)
                for role, restarts in _named(values, "role.restarts/").items()
            },
        }

    def _new_dead_letters(self, sample: Sample) -> Mapping[str, float]:
        """By group."""
        grown: defaultdict[str, float] = defaultdict(float)
        for broker in sample.brokers:
            if broker.problem is not None or not broker.is_master:
                continue
            groups = _dead_letter_groups(broker)
            old = self._old_dead.setdefault(broker.key, groups)
            old &= groups  # a topic that is created again begins at 0
            growth = self._dead.setdefault(broker.key, _Growth(DEAD_LETTERS_S))
            growth.keep(groups)
            for group, count in broker.dead_letters.items():
                grown[group] += growth.follow(sample.time_s, group, count, first=count if group in old else 0)
        return dict(grown)


def _dead_letter_groups(broker: BrokerSample) -> set[str]:
    topics = {topic.removeprefix(names.DLQ_PREFIX) for topic in broker.topics if topic.startswith(names.DLQ_PREFIX)}
    return topics | broker.dead_letters.keys()


class _Growth:
    """How much counters grew within a time. A counter that shrinks begins anew."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._known: dict[str, deque[tuple[float, float]]] = {}

    def follow(self, now_s: float, name: str, value: float, first: float) -> float:
        """The growth of a counter; one that is new now has grown from `first`."""
        points = self._known.setdefault(name, deque([(now_s, first)]))
        if value < points[-1][1]:
            points.clear()
        if not points or now_s - points[-1][0] >= _SPACING_S:
            points.append((now_s, value))
        while len(points) > 1 and points[1][0] <= now_s - self._span_s:
            points.popleft()
        return value - points[0][1]

    def keep(self, kept: AbstractSet[str]) -> None:
        """Forgets other counters."""
        for gone in self._known.keys() - kept:
            del self._known[gone]


def _named(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
