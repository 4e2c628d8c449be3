"""The list of accounts, of all brokers; the state of each broker's access control; and the addresses that need no account."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from headrace.protocol.bodies.acl import PlainAccessConfig
from web.errors import Invalid
from web.pages.acl.acl_reads import AclReads, BrokerAcl
from web.pages.acl.decisions import Decisions
from web.paths import path_of
from web.routes import Access, Outcome, View, Visit
from web.tables.table import Column, Kind, Table

CLEARED: Final = ("", "")
"""The empty list in a request, whose lists are separated by commas: Java reads `,` as no entries, and nothing as one empty entry."""
ADVICE: Final = "Brokers of RocketMQ 4.9.8 do not report their accounts, but the accounts can still be changed here."


class AccountRow(msgspec.Struct, frozen=True):
    """An account as some brokers have it; never with its secret key."""

    access_key: str
    brokers: list[str]
    admin: bool
    default_topic: str
    default_group: str
    topics: list[str]
    groups: list[str]
    white_address: str
    differs: bool
    """Whether other brokers have the account with other fields, or not at all."""


class AclBrokerRow(msgspec.Struct, frozen=True):
    """The access control of one master."""

    broker: str
    address: str
    state: str
    version: int | None
    changed: int | None
    files: list[str]
    white_addresses: list[str]
    problem: str


class WhiteForm(msgspec.Struct, forbid_unknown_fields=True):
    """`addresses`: one pattern a line. `broker`: the name of one, or empty for all masters."""

    addresses: Annotated[str, msgspec.Meta(max_length=100_000)] = ""
    broker: str = ""


def _everything(row: AccountRow) -> tuple[str, dict[str, str]] | None:
    """In place of the default permissions of an administrator, which brokers do not use unless the account has rules of its own."""
    return ("everything allowed (admin)", {}) if row.admin and not row.topics and not row.groups else None


def _account_columns(*, is_editor: bool) -> tuple[Column[AccountRow], ...]:
    def link(row: AccountRow) -> str | None:
        return path_of("acl", "accounts", row.access_key) if is_editor else None

    return (
        Column("access_key", "Access key", link=link),
        Column("admin", "Admin", Kind.YES_NO, help="Whether the account may send admin requests."),
        Column("default_topic", "Default for topics", says=_everything),
        Column("default_group", "Default for groups", says=_everything),
        Column("topics", "Topics", Kind.LIST),
        Column("groups", "Groups", Kind.LIST),
        Column("white_address", "Whitelisted address", help="Requests from these addresses are not checked."),
        Column("brokers", "Brokers", Kind.LIST),
        Column(
            "differs",
            "Differs",
            Kind.YES_NO,
            is_shown_if_any=True,
            help="Whether the account differs between brokers.",
        ),
    )


_BROKER_COLUMNS: Final[tuple[Column[AclBrokerRow], ...]] = (
    Column("broker", "Broker"),
    Column("address", "Address"),
    Column("state", "State", Kind.WORD),
    Column("version", "Version", Kind.NUMBER, help="How often the accounts were changed by requests."),
    Column("changed", "Last change", Kind.TIME),
    Column(
        "white_addresses",
        "Global whitelisted addresses",
        Kind.LIST,
        help="Requests from these addresses are not checked.",
    ),
    Column("files", "Files (version)", Kind.LIST),
    Column("problem", "Problem", is_shown_if_any=True),
)


class AclList:
    """The page with accounts and brokers."""

    def __init__(self, reads: AclReads) -> None:
        self._reads = reads

    async def show(self, visit: Visit) -> View:
        """All that the brokers report."""
        known = await self._reads.all()
        is_editor = visit.access >= Access.ADMIN
        tables: list[Table[Any]] = [
            Table(
                "accounts",
                AccountRow,
                account_rows(known),
                _account_columns(is_editor=is_editor),
                search=("access_key", "topics", "groups"),
                sort="access_key",
                empty="The brokers report no accounts.",
            ),
            Table("brokers", AclBrokerRow, [_broker_row(one) for one in known], _BROKER_COLUMNS),
        ]
        data = {
            "brokers": [one.broker for one in known],
            "is_enabled": any(one.is_enabled for one in known),
            "white_addresses": sorted({text for one in known if one.config for text in one.config.global_white_addrs}),
        }
        return View("ACL", "acl/list.html", data, tables, problems=problems_of(known))

    async def put_white_addresses(self, _visit: Visit, form: WhiteForm) -> Outcome:
        """Replaces the global white addresses. Raises Invalid, HeadraceError."""
        addresses = [line.strip() for line in form.addresses.splitlines() if line.strip()]
        for address in addresses:
            # The list of a request is separated by commas; only `{…}` may have some, and brokers split them too.
            if "," in address:
                raise Invalid(
                    "{address} contains a comma", "Write one address or pattern per line.", address=repr(address[:200])
                )
        Decisions([], addresses)
        self._reads.cluster.forget()
        targets = await self._reads.targets(form.broker)
        before = {
            one.broker: one.config.global_white_addrs
            for one in await self._reads.all()
            if one.broker in targets and one.config is not None
        }
        for address in targets.values():
            await self._reads.cluster.admin.update_global_white_addresses(addresses or CLEARED, broker=address)
        return Outcome(
            "The global whitelisted addresses were replaced. Brokers: {count}.",
            {"count": len(targets)},
            "/acl",
            before=before,
            after=dict.fromkeys(targets, addresses),
        )


def problems_of(known: Sequence[BrokerAcl]) -> list[str]:
    """What could not be read, with what to do about it."""
    problems = [f"{one.broker} ({one.address}): {one.problem}" for one in known if one.problem]
    return [*problems, ADVICE] if any(one.problem and one.version is not None for one in known) else problems


def account_rows(known: Sequence[BrokerAcl]) -> list[AccountRow]:
    """One row for each account and for each way in which brokers have it. Equality includes the secret key."""
    reporting = [one for one in known if one.config is not None]
    found: dict[str, list[tuple[PlainAccessConfig, list[str]]]] = {}
    for one in reporting:
        for account in one.config.plain_access_configs if one.config is not None else ():
            ways = found.setdefault(account.access_key, [])
            same = next((brokers for way, brokers in ways if way == account), None)
            if same is None:
                ways.append((account, [one.broker]))
            else:
                same.append(one.broker)
    return [
        AccountRow(
            access_key,
            brokers,
            account.admin,
            account.default_topic_perm or "DENY",
            account.default_group_perm or "DENY",
            list(account.topic_perms or ()),
            list(account.group_perms or ()),
            account.white_remote_address or "",
            len(brokers) < len(reporting),
        )
        for access_key, ways in sorted(found.items())
        for account, brokers in ways
    ]


def _broker_row(one: BrokerAcl) -> AclBrokerRow:
    state = "enabled" if one.is_enabled else "disabled"
    if one.problem:
        state = "not readable"
    return AclBrokerRow(
        one.broker,
        one.address,
        state,
        one.version,
        one.changed,
        [f"{path} ({version})" for path, version in one.files.items()],
        [] if one.config is None else one.config.global_white_addrs,
        one.problem,
    )
