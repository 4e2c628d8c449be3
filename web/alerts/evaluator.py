"""Evaluator: decides from observations which alerts begin and which end. No I/O.

    quiet ── value passes ──► pending ── for `for_s` ──► firing ── does not pass for CLEAR_S ──► quiet

A subject without a value keeps its state: a failed sample neither raises nor ends an alert. A subject that does not return for an hour was
deleted, and its alert ends.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from web.alerts.observations import Observed
from web.alerts.rules import Rule, What

CLEAR_S: Final = 60.0
GONE_S: Final = 3_600.0
MOST_ALERTS: Final = 1_000  # limit: alerts of one rule at a time; a cluster in trouble must not flood people


class AlertEvent(msgspec.Struct, frozen=True):
    """An alert began or ended."""

    time_s: float
    rule: str
    subject: str
    firing: bool
    value: float
    text: str
    """For logs and messages; pages say the same in the reader's language."""
    what: What | None = None
    threshold: float = 0.0
    reason: str = ""
    """Why it ended, if not because of the value."""


class _State(Struct):
    passes_since_s: float
    seen_s: float
    bad_s: float
    """When it passed last."""
    is_firing: bool = False


class Evaluator:
    """The states of all alerts."""

    def __init__(self, firing: Iterable[AlertEvent] = ()) -> None:
        """`firing`: alerts that had begun, and not ended, when the console stopped."""
        self._states = {
            (event.rule, event.subject): _State(event.time_s, event.time_s, event.time_s, is_firing=True)
            for event in firing
        }

    @property
    def firing(self) -> list[tuple[str, str]]:
        """Rule and subject of alerts that fire, sorted."""
        return sorted(key for key, state in self._states.items() if state.is_firing)

    def ends_at_s(self, rule: str, subject: str) -> float | None:
        """When a firing alert resolves if its value stays within the threshold; None while its value passes the threshold."""
        state = self._states.get((rule, subject))
        return None if state is None or not state.is_firing or state.seen_s <= state.bad_s else state.bad_s + CLEAR_S

    def step(self, now_s: float, rules: Sequence[Rule], observed: Observed) -> list[AlertEvent]:
        """What begins and what ends."""
        events: list[AlertEvent] = []
        for rule in rules:
            if rule.enabled:
                for subject, value in observed.get(rule.what, {}).items():
                    if rule.applies_to(subject):
                        events += self._look(now_s, rule, subject, value)
        return [*events, *self._end_orphans(now_s, {rule.name for rule in rules if rule.enabled})]

    def _look(self, now_s: float, rule: Rule, subject: str, value: float) -> Iterator[AlertEvent]:
        key = (rule.name, subject)
        state = self._states.get(key)
        if rule.is_passed_by(value):
            if state is None:
                if sum(name == rule.name for name, _ in self._states) >= MOST_ALERTS:
                    return
                state = self._states[key] = _State(now_s, now_s, now_s)
            state.seen_s = state.bad_s = now_s
            if not state.is_firing and now_s - state.passes_since_s >= rule.for_s:
                state.is_firing = True
                yield _event(now_s, rule, subject, value, firing=True)
        elif state is not None:
            state.seen_s = now_s
            if not state.is_firing:
                del self._states[key]
            elif now_s - state.bad_s >= CLEAR_S:
                del self._states[key]
                yield _event(now_s, rule, subject, value, firing=False)

    def _end_orphans(self, now_s: float, rules: set[str]) -> Iterator[AlertEvent]:
        """Ends alerts whose rule or subject is gone."""
        for (rule, subject), state in list(self._states.items()):
            if rule in rules and now_s - state.seen_s <= GONE_S:
                continue
            del self._states[rule, subject]
            if state.is_firing:
                reason = "the rule was removed or disabled" if rule not in rules else "no data for an hour"
                text = f"{rule}: {subject} resolved, {reason}"
                yield AlertEvent(now_s, rule, subject, firing=False, value=0.0, text=text, reason=reason)


def _event(now_s: float, rule: Rule, subject: str, value: float, *, firing: bool) -> AlertEvent:
    state = "firing" if firing else "resolved"
    text = f"{rule.name}: {subject} {state}, {rule.what.value}={value:g} threshold={rule.threshold:g}"
    return AlertEvent(now_s, rule.name, subject, firing, value, text, rule.what, rule.threshold)
