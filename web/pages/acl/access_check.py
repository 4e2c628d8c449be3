"""Who may do something with a topic or a group, and which rule decides: of all accounts of all brokers."""

from typing import Final

import msgspec

from web.errors import Invalid
from web.pages.acl.acl_list import problems_of
from web.pages.acl.acl_reads import AclReads
from web.pages.acl.decisions import ACTIONS, Decisions, words_of_rule
from web.routes import View, Visit
from web.tables.table import Choice, Column, Kind, Table


class CheckRow(msgspec.Struct, frozen=True):
    """What one broker decides about one account."""

    access_key: str
    broker: str
    allowed: bool
    rule: str


_COLUMNS: Final[tuple[Column[CheckRow], ...]] = (
    Column("access_key", "Access key"),
    Column("allowed", "Allowed", Kind.YES_NO),
    Column("rule", "Rule that decides", says=lambda row: words_of_rule(row.rule)),
    Column("broker", "Broker"),
)
_SHOWN: Final = Choice("shown", "Allowed", (("all", "All"), ("allowed", "yes"), ("denied", "no")))
CHECK_ARGUMENTS: Final = {
    "action": "`pub`, `sub` or `admin`.",
    "resource": "The topic to which messages are sent, or the topic or group that is consumed.",
    "account": "Only this account.",
    "from": "The address of the client.",
    **_SHOWN.argument,
}


class AccessCheck:
    """The page with the question and its answer."""

    def __init__(self, reads: AclReads) -> None:
        self._reads = reads

    async def show(self, visit: Visit) -> View:
        """The question stands in the address: action, resource (a topic or `group:NAME`), account, from."""
        action = visit.arguments.get("action", "pub")
        resource = visit.arguments.get("resource", "").strip()[:300]
        account, host = (visit.arguments.get(name, "").strip()[:300] for name in ("account", "from"))
        if action not in ACTIONS:
            raise Invalid(
                "action={action} is not one of {choices}", action=repr(action[:80]), choices=", ".join(ACTIONS)
            )
        is_asked = bool(resource) or action == "admin"
        known = await self._reads.all() if is_asked else []
        rows: list[CheckRow] = []
        for one in known:
            if one.config is None:
                continue
            decisions = Decisions(one.config.plain_access_configs, one.config.global_white_addrs)
            keys = [account] if account else sorted({each.access_key for each in one.config.plain_access_configs})
            for key in keys:
                said = decisions.decide(key, action, resource, host)
                rows.append(CheckRow(key, one.broker, said.is_allowed, said.rule))
        data = {
            "action": action,
            "resource": resource,
            "account": account,
            "from": host,
            "is_asked": is_asked,
            "disabled": [one.broker for one in known if not one.is_enabled],
        }
        table = Table(
            "decisions",
            CheckRow,
            rows,
            _COLUMNS,
            search=("access_key", "rule"),
            choices=(_SHOWN,),
            choose=lambda row, chosen: chosen["shown"] == "all" or row.allowed == (chosen["shown"] == "allowed"),
            empty="The brokers report no accounts.",
        )
        return View("Check access", "acl/check.html", data, [table] if is_asked else [], problems=problems_of(known))
