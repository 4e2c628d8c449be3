"""One account: new rules are tried first, then saved at the brokers.

What is tried stands in the address, without a secret key. Saving needs the secret key, because the request does (50): that of an existing account
is read from the broker and sent back to it, or typed by the user; that of a new one is typed, or made here and shown once.
"""

import secrets
from typing import Annotated, Any, Final, Literal

import msgspec

from headrace.protocol.bodies.acl import PlainAccessConfig
from web.errors import Invalid, NotFound
from web.pages.acl.acl_list import CLEARED, problems_of
from web.pages.acl.acl_reads import AclReads, BrokerAcl
from web.pages.acl.decisions import Decision, Decisions, words_of_rule
from web.routes import Outcome, View, Visit
from web.tables.table import Column, Kind, Table

Word = Literal["DENY", "PUB", "SUB", "PUB|SUB"]
_LIMIT: Final = 100_000
_KEY_LENGTH: Final = 7  # brokers refuse shorter access and secret keys
_SECRET_BYTES: Final = 24


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of an account. `topics` and `groups`: one `name=PERMISSION` a line."""

    admin: bool = False
    default_topic: Word = "DENY"
    default_group: Word = "DENY"
    topics: Annotated[str, msgspec.Meta(max_length=_LIMIT)] = ""
    groups: Annotated[str, msgspec.Meta(max_length=_LIMIT)] = ""
    white_address: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


RULE_ARGUMENTS: Final = {
    "admin": "New rules, as in the form: `true` for an account that may send admin requests.",
    "default_topic": "The permission for topics without a rule. If it is given, the rules are tried.",
    "default_group": "The permission for groups without a rule.",
    "topics": "Rules for topics: one `name=PERMISSION` a line.",
    "groups": "Rules for groups: one `name=PERMISSION` a line.",
    "white_address": "The address from which all requests of the account are allowed, without checking signature or permissions.",
    "resource": "A topic or group with which the rules are tried, besides those that they name.",
}


class AccountForm(Rules, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An account to be created or changed; `broker`: the name of one, or empty for all masters.

    `secret_key` empty: that of an existing account is kept, for a new one it is made.
    """

    access_key: Annotated[str, msgspec.Meta(min_length=_KEY_LENGTH, max_length=300)]
    secret_key: Annotated[str, msgspec.Meta(max_length=300)] = ""
    broker: str = ""

    def __repr__(self) -> str:
        return f"AccountForm({self.access_key!r})"


class DeletionForm(msgspec.Struct, forbid_unknown_fields=True):
    """`confirm`: the access key, typed again."""

    confirm: str
    broker: str = ""


class TrialRow(msgspec.Struct, frozen=True):
    """What the account may do now and with the new rules."""

    resource: str
    action: str
    now: bool | None
    """None: there is no such account now, or the broker does not report it."""
    rule_now: str
    then: bool
    rule_then: str
    changes: bool


_TRIAL_COLUMNS: Final[tuple[Column[TrialRow], ...]] = (
    Column("resource", "Topic or group"),
    Column("action", "Action"),
    Column("now", "Allowed now", Kind.YES_NO),
    Column("rule_now", "Rule now", says=lambda row: words_of_rule(row.rule_now)),
    Column("then", "Allowed after the change", Kind.YES_NO),
    Column("rule_then", "Rule after the change", says=lambda row: words_of_rule(row.rule_then)),
    Column("changes", "Changes", Kind.YES_NO),
)


class AccountPage:
    """The pages of a new account and of an existing one."""

    def __init__(self, reads: AclReads) -> None:
        self._reads = reads

    async def show_new(self, visit: Visit) -> View:
        """The form of a new account."""
        return self._view(visit, visit.arguments.get("access_key", "").strip()[:300], await self._reads.all(), None)

    async def show(self, visit: Visit) -> View:
        """The form of an existing account. If a broker does not report its accounts, the form may be empty. Raises NotFound."""
        access_key = visit.path["account"]
        known = await self._reads.all()
        present = next((found for one in known if (found := one.account(access_key)) is not None), None)
        if present is None and all(one.config is not None for one in known if one.is_enabled):
            raise NotFound(
                "no broker has the account {access_key}", "Choose one from the list.", access_key=access_key[:200]
            )
        return self._view(visit, access_key, known, present)

    def _view(self, visit: Visit, access_key: str, known: list[BrokerAcl], present: PlainAccessConfig | None) -> View:
        is_tried = "default_topic" in visit.arguments
        rules = _rules_in(visit) if is_tried else _rules_of(present)
        resource = visit.arguments.get("resource", "").strip()[:300]
        tables: list[Table[Any]] = []
        if is_tried:
            white = next((one.config.global_white_addrs for one in known if one.config is not None), [])
            rows = _trial(access_key, present, _account(access_key, rules), white, resource)
            tables = [Table("trial", TrialRow, rows, _TRIAL_COLUMNS, search=("resource",))]
        is_new = "account" not in visit.path
        data = {
            "access_key": access_key,
            "is_new": is_new,
            "is_tried": is_tried,
            "is_known": present is not None,
            "rules": msgspec.to_builtins(rules),
            "resource": resource,
            "brokers": [one.broker for one in known],
        }
        title = "Create an account" if is_new else "Account"
        return View(title, "acl/account.html", data, tables, "" if is_new else access_key, problems_of(known))

    async def put(self, _visit: Visit, form: AccountForm) -> Outcome:
        """Creates or changes the account at the brokers. Raises Invalid, HeadraceError."""
        account = _account(form.access_key, form)
        Decisions([account], [])
        if 0 < len(form.secret_key) < _KEY_LENGTH:
            raise Invalid("the secret key has fewer than 7 characters", "Choose a longer one.")
        self._reads.cluster.forget()  # a secret key that was changed since must not be written back
        targets = await self._reads.targets(form.broker)
        known = {one.broker: one for one in await self._reads.all()}
        before = {broker: known[broker].account(form.access_key) for broker in targets if broker in known}
        is_made = False
        secret = form.secret_key
        if not secret and all(found is None for found in before.values()):
            silent = [broker for broker in targets if broker not in known or known[broker].config is None]
            if silent:
                raise Invalid(
                    "{brokers}: accounts are not reported, so the secret key is unknown",
                    "Type the secret key.",
                    brokers=", ".join(silent),
                )
            secret, is_made = secrets.token_urlsafe(_SECRET_BYTES), True
        kept = next((found.secret_key for found in before.values() if found is not None), None)
        for broker, address in targets.items():
            present = before.get(broker)
            own = secret or (present.secret_key if present is not None else kept)
            await self._reads.cluster.admin.update_account(
                form.access_key,
                own,
                admin=account.admin,
                white_address=account.white_remote_address or "",
                default_topic_permission=account.default_topic_perm,
                default_group_permission=account.default_group_perm,
                topic_permissions=account.topic_perms or CLEARED,
                group_permissions=account.group_perms or CLEARED,
                broker=address,
            )
        values: dict[str, Any] = {"account": form.access_key, "count": len(targets)}
        message = "The account {account} was saved. Brokers: {count}."
        if is_made:
            values["secret"] = secret
        return Outcome(
            "The account {account} was created. Brokers: {count}. Its secret key is shown only now: {secret}"
            if is_made
            else message,
            values,
            "/acl",
            before={broker: None if found is None else _shown(found) for broker, found in before.items()},
            after={broker: {**_shown(account), "is_secret_new": bool(secret)} for broker in targets},
        )

    async def delete(self, visit: Visit, form: DeletionForm) -> Outcome:
        """Deletes the account at the brokers that have it, or may have it. Raises Invalid, NotFound, HeadraceError."""
        access_key = visit.path["account"]
        if form.confirm != access_key:
            raise Invalid(
                "{confirm} is not the access key",
                "Type the access key to delete the account.",
                confirm=repr(form.confirm[:200]),
            )
        self._reads.cluster.forget()  # a secret key that was changed since must not be written back
        targets = await self._reads.targets(form.broker)
        known = {one.broker: one for one in await self._reads.all()}
        before = {broker: known[broker].account(access_key) for broker in targets if broker in known}
        having = [
            broker
            for broker in targets
            if broker not in known or known[broker].config is None or before[broker] is not None
        ]
        if not having:
            raise NotFound(
                "no broker has the account {access_key}", "Choose one from the list.", access_key=access_key[:200]
            )
        for broker in having:
            await self._reads.cluster.admin.delete_account(access_key, broker=targets[broker])
        return Outcome(
            "The account {account} was deleted. Brokers: {count}.",
            {"account": access_key, "count": len(having)},
            "/acl",
            before={broker: _shown(found) for broker, found in before.items() if found is not None},
        )


def _rules_in(visit: Visit) -> Rules:
    """What the address asks to try. Raises Invalid."""
    given = {name: visit.arguments[name] for name in Rules.__struct_fields__ if name in visit.arguments}
    try:
        return msgspec.convert(given, Rules, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid("the rules are invalid: {error}", "Correct them and try again.", error=error) from error


def _rules_of(present: PlainAccessConfig | None) -> Rules:
    if present is None:
        return Rules()
    return Rules(
        admin=present.admin,
        default_topic=_word(present.default_topic_perm),
        default_group=_word(present.default_group_perm),
        topics="\n".join(present.topic_perms or ()),
        groups="\n".join(present.group_perms or ()),
        white_address=present.white_remote_address or "",
    )


def _word(text: str | None) -> Word:
    """The word that means the same to a broker."""
    match (text or "").strip():
        case "PUB":
            return "PUB"
        case "SUB":
            return "SUB"
        case "PUB|SUB" | "SUB|PUB":
            return "PUB|SUB"
        case _:
            return "DENY"


def _account(access_key: str, rules: Rules) -> PlainAccessConfig:
    """The account with these rules. Raises Invalid for an entry that a request cannot carry."""
    for line in (rules.topics + "\n" + rules.groups).splitlines():
        if "," in line:
            raise Invalid("{line} contains a comma", "Write one entry per line.", line=repr(line[:200]))
        if line.strip() and line.partition("=")[2].strip() not in {"DENY", "PUB", "SUB", "PUB|SUB", "SUB|PUB"}:
            raise Invalid(
                "expected an entry such as Orders=PUB|SUB, got {line}",
                "Use DENY, PUB, SUB or PUB|SUB.",
                line=repr(line[:200]),
            )
    return PlainAccessConfig(
        access_key,
        None,
        rules.white_address,
        rules.admin,
        rules.default_topic,
        rules.default_group,
        [line.strip() for line in rules.topics.splitlines() if line.strip()],
        [line.strip() for line in rules.groups.splitlines() if line.strip()],
    )


def _trial(
    access_key: str, present: PlainAccessConfig | None, then: PlainAccessConfig, white: list[str], asked: str
) -> list[TrialRow]:
    """Each topic and group that the old or the new rules name, any other one, and the one that is asked for."""
    if len(access_key) < _KEY_LENGTH:
        raise Invalid(
            "the access key {access_key} has fewer than 7 characters",
            "Choose a longer one.",
            access_key=repr(access_key),
        )
    named: dict[str, None] = {asked: None} if asked else {}
    for account in (present, then):
        if account is not None:
            named.update((entry.partition("=")[0].strip(), None) for entry in account.topic_perms or ())
            named.update((f"group:{entry.partition('=')[0].strip()}", None) for entry in account.group_perms or ())
    before = None if present is None else Decisions([present], white)
    after = Decisions([then], white)
    questions = [(name, action) for name in (*named, "*", "group:*") for action in ("pub", "sub")]
    rows: list[TrialRow] = []
    for resource, action in (*questions, ("", "admin")):
        if resource.startswith("group:") and action == "pub":
            continue
        now: Decision | None = None if before is None else before.decide(access_key, action, resource)
        result = after.decide(access_key, action, resource)
        rows.append(
            TrialRow(
                resource,
                action,
                None if now is None else now.is_allowed,
                "" if now is None else now.rule,
                result.is_allowed,
                result.rule,
                (now.is_allowed if now is not None else None) != result.is_allowed,
            )
        )
    return rows


def _shown(account: PlainAccessConfig) -> dict[str, Any]:
    """For the audit log: all but the secret key."""
    return {
        "admin": account.admin,
        "default_topic": account.default_topic_perm,
        "default_group": account.default_group_perm,
        "topics": list(account.topic_perms or ()),
        "groups": list(account.group_perms or ()),
        "white_address": account.white_remote_address,
    }
