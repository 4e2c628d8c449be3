"""Rows of alerts, rules and channels. Secrets of channels are in none."""

from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from web.alerts.alert_service import AlertService
from web.alerts.channels import LOG, Channel, Webhook
from web.alerts.evaluator import AlertEvent
from web.alerts.rules import DEFAULT_RULES, Rule, What
from web.paths import path_of
from web.tables.table import Column, Kind


class FiringRow(msgspec.Struct, frozen=True):
    """An alert that fires."""

    rule: str
    subject: str
    since: int
    value: float | None
    """As of the latest sample; None if unknown."""
    fired_value: float
    """When it began."""
    what: str
    """What the rule watches; empty: unknown."""
    threshold: float | None
    ends: int | None
    """When it resolves if the value stays within the threshold; None: the value passes the threshold, or is unknown."""
    text: str
    """As in the log."""


class EventRow(msgspec.Struct, frozen=True):
    """An alert began or ended."""

    at: int
    rule: str
    subject: str
    state: str
    value: float | None
    what: str
    threshold: float | None
    note: str
    """Why it ended, if not because of the value."""
    text: str


class RuleRow(msgspec.Struct, frozen=True):
    """A rule."""

    rule: str
    enabled: bool
    kind: str
    """What it watches, as in the API."""
    what: str
    threshold: float
    for_ms: int
    subjects: str
    channels: list[str]


class ChannelRow(msgspec.Struct, frozen=True):
    """A channel: how people are notified."""

    channel: str
    kind: str
    target: str
    rules: list[str]


WHAT_WORDS: Final = {
    What.LAG_MESSAGES: "lag of a group",
    What.LAG_TIME: "time lag of a group",
    What.DEAD_LETTERS: "new dead letters of a group within 10 minutes",
    What.DISK_DAYS: "time until a broker's disk is full (fires below)",
    What.BROKER_DOWN: "broker does not answer",
    What.WRITES_REFUSED: "a broker's store refuses all messages (full disk, failed write)",
    What.ROLE_RESTARTS: "restarts of an appliance role within 15 minutes",
}
"""English, keys of the translations."""

_MEASURES: Final = {
    What.LAG_MESSAGES: "{n} messages",
    What.DEAD_LETTERS: "{n} dead letters",
    What.DISK_DAYS: "{n} days",
    What.ROLE_RESTARTS: "{n} restarts",
}
"""Values with their units: English, keys of the translations."""
_MEASURES_OF_ONE: Final = {
    What.LAG_MESSAGES: "{n} message",
    What.DEAD_LETTERS: "{n} dead letter",
    What.DISK_DAYS: "{n} day",
    What.ROLE_RESTARTS: "{n} restart",
}
_OF_GROUPS: Final = frozenset({What.LAG_MESSAGES.value, What.LAG_TIME.value, What.DEAD_LETTERS.value})


def measure(what: str, value: float | None) -> tuple[str, dict[str, Any]] | None:
    """A value or a threshold with its unit, for `t`; None if there is none."""
    if value is None:
        return None
    if what == What.BROKER_DOWN.value:
        return "does not answer" if value else "answers", {}
    if what == What.LAG_TIME.value:
        return "{n:duration}", {"n": value * 1000}
    if what == What.WRITES_REFUSED.value:
        return "store refuses messages" if value else "store accepts messages", {}
    number = f"{round(value, 1):,.15g}"
    if not what:
        return "{n}", {"n": number}
    measures = {**_MEASURES, **_MEASURES_OF_ONE} if number == "1" else _MEASURES
    return measures[What(what)], {"n": number}


DEFAULT_NAMES: Final = frozenset(rule.name for rule in DEFAULT_RULES)
"""Names of rules that are keys of the translations. Logs and messages have them as they are stored, and so has the form of a rule."""


def _rule_path(rule: str) -> str:
    return path_of("alerts", "rules", rule)


FIRING_COLUMNS: Final[tuple[Column[FiringRow], ...]] = (
    Column("rule", "Rule", link=lambda row: _rule_path(row.rule), words=DEFAULT_NAMES),
    Column("subject", "Subject", link=lambda row: subject_path(row.what, row.subject)),
    Column("since", "Since", Kind.TIME),
    Column("value", "Value now", Kind.RATE, says=lambda row: measure(row.what, row.value)),
    Column("fired_value", "Value when it fired", Kind.RATE, says=lambda row: measure(row.what, row.fired_value)),
    Column("threshold", "Threshold", Kind.RATE, says=lambda row: measure(row.what, row.threshold)),
    Column(
        "ends",
        "Resolves at",
        Kind.TIME,
        help="An alert resolves when its value has been within the threshold for one minute. New dead letters are counted for 10 minutes, restarts for 15.",
        none="still outside the threshold",
        is_shown_if_any=True,
    ),
)
EVENT_COLUMNS: Final[tuple[Column[EventRow], ...]] = (
    Column("at", "Time", Kind.TIME),
    Column("state", "State", is_word=True),
    Column("rule", "Rule", link=lambda row: _rule_path(row.rule), words=DEFAULT_NAMES),
    Column("subject", "Subject", link=lambda row: subject_path(row.what, row.subject)),
    Column("value", "Value", Kind.RATE, says=lambda row: measure(row.what, row.value)),
    Column("threshold", "Threshold", Kind.RATE, says=lambda row: measure(row.what, row.threshold)),
    Column("note", "Note", is_word=True, is_shown_if_any=True),
)
RULE_COLUMNS: Final[tuple[Column[RuleRow], ...]] = (
    Column("rule", "Rule", link=lambda row: _rule_path(row.rule), words=DEFAULT_NAMES),
    Column("enabled", "Enabled", Kind.YES_NO),
    Column("what", "Metric", is_word=True),
    Column("threshold", "Threshold", Kind.RATE, says=lambda row: measure(row.kind, row.threshold)),
    Column("for_ms", "Fires after", Kind.DURATION, says=lambda row: None if row.for_ms else ("at once", {})),
    Column("subjects", "Subjects", help="A pattern of names: * for all, order-* for those that begin with order-."),
    Column("channels", "Channels", Kind.LIST, links=lambda row: [(one, channel_path(one)) for one in row.channels]),
)
CHANNEL_COLUMNS: Final[tuple[Column[ChannelRow], ...]] = (
    Column("channel", "Channel", link=lambda row: channel_path(row.channel)),
    Column("kind", "Kind", is_word=True),
    Column("target", "Target"),
    Column(
        "rules",
        "Rules",
        Kind.LIST,
        links=lambda row: [(one, path_of("alerts", "rules", one)) for one in row.rules],
        words=DEFAULT_NAMES,
    ),
)


def firing_rows(alerts: AlertService) -> list[FiringRow]:
    """The rows of the alerts that fire."""
    rows = []
    for event in alerts.firing():
        what, threshold = _watched(event)
        since, value = int(event.time_s * 1000), alerts.present_value(event)
        ends_s = alerts.ends_at_s(event)
        ends = None if ends_s is None else int(ends_s * 1000)
        rows.append(FiringRow(event.rule, event.subject, since, value, event.value, what, threshold, ends, event.text))
    return rows


def event_row(event: AlertEvent) -> EventRow:
    """The row of an event."""
    state = "firing" if event.firing else "resolved"
    value = None if event.reason else event.value
    at = int(event.time_s * 1000)
    return EventRow(at, event.rule, event.subject, state, value, *_watched(event), event.reason, event.text)


def _watched(event: AlertEvent) -> tuple[str, float | None]:
    """What the rule watched and its threshold: unknown of events that older versions recorded."""
    return ("", None) if event.what is None else (event.what.value, event.threshold)


def rule_row(rule: Rule) -> RuleRow:
    """The row of a rule."""
    what = WHAT_WORDS[rule.what]
    for_ms, channels = rule.for_s * 1000, list(rule.channels)
    return RuleRow(rule.name, rule.enabled, rule.what.value, what, rule.threshold, for_ms, rule.subjects, channels)


def channel_rows(channels: tuple[Channel, ...], rules: tuple[Rule, ...]) -> list[ChannelRow]:
    """The rows of all channels, with the log, which always exists."""

    def users(name: str) -> list[str]:
        return [rule.name for rule in rules if name in rule.channels]

    rows = [ChannelRow(LOG, "log", "logs/headrace.log", users(LOG))]
    for one in channels:
        target = _host(one.url) if isinstance(one, Webhook) else " ".join(one.recipients)
        rows.append(ChannelRow(one.name, "webhook" if isinstance(one, Webhook) else "mail", target, users(one.name)))
    return rows


def subject_path(what: str, subject: str) -> str | None:
    """The page of an alert's subject; None unless it is a group's."""
    return path_of("groups", subject) if what in _OF_GROUPS else None


def channel_path(name: str) -> str:
    """The page of a channel."""
    return path_of("alerts", "channels", name)


def public(channel: Channel) -> dict[str, object]:
    """A channel without its secrets, for pages and the audit log: only whether it has one. Addresses of webhooks often contain one."""
    fields: dict[str, object] = msgspec.to_builtins(channel)
    if isinstance(channel, Webhook):
        fields["url"] = _host(channel.url)
    for secret in ("token", "password"):
        if secret in fields:
            fields[f"has_{secret}"] = bool(fields.pop(secret))
    return fields


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/…"
