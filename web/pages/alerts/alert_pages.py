"""The pages of alerts, and how rules and channels are changed.

A rule may be changed by operators. Channels contain secrets and make the console connect to other hosts: only administrators change them.
"""

from typing import Any, Final, Literal

import msgspec

from web.alerts.alert_book import EVENTS
from web.alerts.alert_service import AlertService
from web.alerts.channels import LOG, Channel, Mail, NotDelivered, Webhook
from web.alerts.rules import Rule, What
from web.errors import Invalid, NotFound, QueryFailed
from web.pages.alerts.alert_rows import (
    CHANNEL_COLUMNS,
    DEFAULT_NAMES,
    EVENT_COLUMNS,
    FIRING_COLUMNS,
    RULE_COLUMNS,
    WHAT_WORDS,
    ChannelRow,
    EventRow,
    FiringRow,
    RuleRow,
    channel_path,
    channel_rows,
    event_row,
    firing_rows,
    measure,
    public,
    rule_row,
)
from web.paths import path_of
from web.routes import Access, Change, Outcome, Query, Route, View, Visit, secret
from web.tables.table import Choice, Table

_MENU: Final = "Alerts"
_STATES: Final = Choice("state", "State", (("all", "All"), ("firing", "firing"), ("resolved", "resolved")))


class RuleForm(msgspec.Struct, forbid_unknown_fields=True):
    """A rule. `for_s`: for how many seconds the value must pass the threshold."""

    name: str
    what: What
    threshold: float
    for_s: int = 0
    subjects: str = "*"
    channels: list[str] = []
    enabled: bool = True


class WebhookForm(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook. An empty address or token keeps what is stored, the token `-` removes it."""

    name: str
    url: str = ""
    token: str = ""


class MailForm(msgspec.Struct, forbid_unknown_fields=True):
    """Mail. `recipients` are separated by spaces. An empty password keeps the one that is stored, `-` removes it."""

    name: str
    host: str
    sender: str
    recipients: str
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""
    password: str = ""


class NothingForm(msgspec.Struct, forbid_unknown_fields=True):
    """A form without fields."""


class AlertPages:
    """The pages of alerts."""

    def __init__(self, alerts: AlertService) -> None:
        self._alerts = alerts

    def routes(self) -> list[Route]:
        """What it serves."""
        admin = Access.ADMIN

        def name_of(_: Visit, form: Any) -> str:
            return str(form.name)

        return [
            Query(
                "/alerts",
                self.list,
                "Show alerts, rules and channels.",
                menu=_MENU,
                shortcut="l",
                arguments=_STATES.argument,
            ),
            Query("/alerts/rules/<rule:str>", self.show_rule, "Show a rule.", section=_MENU),
            Query("/alerts/channels/<channel:str>", self.show_channel, "Show a channel.", section=_MENU),
            Change("/alerts/rules", RuleForm, self.add_rule, "alert.rule.create", "Create a rule.", subject=name_of),
            Change("/alerts/rules/<rule:str>", RuleForm, self.change_rule, "alert.rule.update", "Change a rule."),
            Change(
                "/alerts/rules/<rule:str>/delete", NothingForm, self.delete_rule, "alert.rule.delete", "Delete a rule."
            ),
            Change(
                "/alerts/webhooks",
                WebhookForm,
                self.put_webhook,
                "alert.channel.save",
                "Create or change a webhook.",
                admin,
                name_of,
                secret("url", "token"),
            ),
            Change(
                "/alerts/mails",
                MailForm,
                self.put_mail,
                "alert.channel.save",
                "Create or change a mail channel.",
                admin,
                name_of,
                secret("password"),
            ),
            Change(
                "/alerts/channels/<channel:str>/delete",
                NothingForm,
                self.delete_channel,
                "alert.channel.delete",
                "Delete a channel.",
                admin,
            ),
            Change(
                "/alerts/channels/<channel:str>/test",
                NothingForm,
                self.test,
                "alert.channel.test",
                "Send a test message to a channel.",
            ),
        ]

    # ---- queries

    async def list(self, _visit: Visit) -> View:
        """What fires, the rules, the channels, and what happened."""
        rules, channels = self._alerts.rules, self._alerts.channels
        events = [event_row(event) for event in await self._alerts.events()]
        tables: list[Table[Any]] = [
            Table(
                "firing",
                FiringRow,
                firing_rows(self._alerts),
                FIRING_COLUMNS,
                sort="-since",
                empty="No alert is firing.",
            ),
            Table("rules", RuleRow, [rule_row(rule) for rule in rules], RULE_COLUMNS, empty="There are no rules."),
            Table("channels", ChannelRow, channel_rows(channels, rules), CHANNEL_COLUMNS),
            Table(
                "events",
                EventRow,
                events,
                EVENT_COLUMNS,
                search=("rule", "subject", "text"),
                choices=(_STATES,),
                choose=lambda row, chosen: chosen["state"] in ("all", row.state),
                sort="-at",
                empty="No alert has fired yet.",
            ),
        ]
        data = {"new": Rule("", What.LAG_MESSAGES, 1_000, for_s=60), **self._kept(), **self._choices()}
        return View("Alerts", "alerts/list.html", data, tables)

    async def show_rule(self, visit: Visit) -> View:
        """One rule, and its events."""
        rule = self._rule(visit.path["rule"])
        events = [event_row(event) for event in await self._alerts.events(rule.name)]
        table = Table(
            "events",
            EventRow,
            events,
            EVENT_COLUMNS,
            search=("subject",),
            sort="-at",
            empty="No alert of this rule is recorded.",
        )
        data = {
            "rule": rule,
            "threshold": measure(rule.what.value, rule.threshold),
            "firing": sum(event.rule == rule.name for event in self._alerts.firing()),
            **self._kept(),
            **self._choices(),
        }
        return View("Rule", "alerts/rule.html", data, [table], rule.name, is_subject_word=rule.name in DEFAULT_NAMES)

    async def show_channel(self, visit: Visit) -> View:
        """One channel, without its secrets."""
        name = visit.path["channel"]
        row = next(
            (row for row in channel_rows(self._alerts.channels, self._alerts.rules) if row.channel == name), None
        )
        if row is None:
            raise NotFound(
                "the channel {name} does not exist", "Choose one from the list of channels.", name=repr(name[:80])
            )
        channel = next((one for one in self._alerts.channels if one.name == name), None)
        data = {
            "row": row,
            "channel": None if channel is None else public(channel),
            "default_rules": sorted(DEFAULT_NAMES.intersection(row.rules)),
        }
        return View("Channel", "alerts/channel.html", data, subject=name)

    # ---- changes

    async def add_rule(self, _visit: Visit, form: RuleForm) -> Outcome:
        """Adds a rule."""
        rule = _rule_of(form)
        self._alerts.change_rules([*self._alerts.rules, rule])
        return Outcome(
            "The rule {rule} was created.",
            {"rule": rule.name},
            "/alerts",
            after=_plain(rule),
            words=_words(rule.name),
        )

    async def change_rule(self, visit: Visit, form: RuleForm) -> Outcome:
        """Replaces a rule; an alert of it that fires goes on firing if the name stays."""
        before, after = self._rule(visit.path["rule"]), _rule_of(form)
        self._alerts.change_rules([after if rule.name == before.name else rule for rule in self._alerts.rules])
        return Outcome(
            "The rule {rule} was changed.",
            {"rule": after.name},
            path_of("alerts", "rules", after.name),
            _plain(before),
            _plain(after),
            words=_words(after.name),
        )

    async def delete_rule(self, visit: Visit, _form: NothingForm) -> Outcome:
        """Deletes a rule."""
        before = self._rule(visit.path["rule"])
        self._alerts.change_rules([rule for rule in self._alerts.rules if rule.name != before.name])
        return Outcome(
            "The rule {rule} was deleted.",
            {"rule": before.name},
            "/alerts",
            before=_plain(before),
            words=_words(before.name),
        )

    async def put_webhook(self, _visit: Visit, form: WebhookForm) -> Outcome:
        """Adds a webhook, or replaces the channel of its name."""
        known = self._channel(form.name)
        before = known if isinstance(known, Webhook) else Webhook(form.name, "")
        url = form.url or before.url
        return self._put(Webhook(form.name, url, _secret(form.token, before.token if url == before.url else "")))

    async def put_mail(self, _visit: Visit, form: MailForm) -> Outcome:
        """Adds a mail channel, or replaces the channel of its name."""
        known = self._channel(form.name)
        is_same = isinstance(known, Mail) and (known.host, known.port, known.security) == (
            form.host,
            form.port,
            form.security,
        )
        password = known.password if isinstance(known, Mail) and is_same else ""
        recipients = tuple(form.recipients.replace(",", " ").split())
        return self._put(
            Mail(
                form.name,
                form.host,
                form.sender,
                recipients,
                form.port,
                form.security,
                form.user,
                _secret(form.password, password),
            )
        )

    async def delete_channel(self, visit: Visit, _form: NothingForm) -> Outcome:
        """Deletes a channel that no rule uses."""
        name = visit.path["channel"]
        before = self._channel(name)
        if before is None:
            raise NotFound(
                "the channel {name} does not exist or is built in",
                "Choose one from the list of channels.",
                name=repr(name[:80]),
            )
        self._alerts.change_channels([one for one in self._alerts.channels if one.name != name])
        return Outcome("The channel {channel} was deleted.", {"channel": name}, "/alerts", before=public(before))

    async def test(self, visit: Visit, _form: NothingForm) -> Outcome:
        """Sends a test message."""
        name = visit.path["channel"]
        try:
            await self._alerts.test_channel(name)
        except NotDelivered as error:
            raise QueryFailed(
                "the test message was not delivered: {error}", "Check the channel's settings.", error=error
            ) from error
        return Outcome("A test message was sent to {channel}.", {"channel": name}, channel_path(name))

    # ---- within

    def _put(self, channel: Channel) -> Outcome:
        before = self._channel(channel.name)
        others = [one for one in self._alerts.channels if one.name != channel.name]
        self._alerts.change_channels([*others, channel])
        return Outcome(
            "The channel {channel} was saved.",
            {"channel": channel.name},
            channel_path(channel.name),
            None if before is None else public(before),
            public(channel),
        )

    def _rule(self, name: str) -> Rule:
        rule = next((rule for rule in self._alerts.rules if rule.name == name), None)
        if rule is None:
            raise NotFound("the rule {name} does not exist", "Choose one from the list of rules.", name=repr(name[:80]))
        return rule

    def _channel(self, name: str) -> Channel | None:
        return next((one for one in self._alerts.channels if one.name == name), None)

    def _kept(self) -> dict[str, Any]:
        """How many events are kept, and whether older ones were deleted."""
        return {"kept": EVENTS, "has_dropped": self._alerts.has_dropped_events()}

    def _choices(self) -> dict[str, Any]:
        """What the form of a rule offers."""
        return {
            "kinds": [{"value": what.value, "label": label} for what, label in WHAT_WORDS.items()],
            "names": [LOG, *(one.name for one in self._alerts.channels)],
        }


def _rule_of(form: RuleForm) -> Rule:
    if not form.channels:
        raise Invalid("the rule has no channel", "Choose at least one; {log} always exists.", log=LOG)
    return Rule(
        form.name,
        form.what,
        form.threshold,
        form.for_s,
        form.subjects,
        tuple(dict.fromkeys(form.channels)),
        form.enabled,
    )


def _words(rule: str) -> frozenset[str]:
    """Of the outcome of a change: whether the name of the rule is a key of the translations."""
    return frozenset({"rule"}) if rule in DEFAULT_NAMES else frozenset()


def _secret(given: str, stored: str) -> str:
    """An empty field keeps what is stored: pages do not contain it. A stored secret is never sent to a server to which it does not belong."""
    return "" if given == "-" else given or stored


def _plain(rule: Rule) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(rule)
    return fields
