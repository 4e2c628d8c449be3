"""Decisions: who may do what, by the code with which brokers decide and `headrace acl check` explains."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from broker.access.access_rules import AccessRules
from broker.access.acl_file import rules_of
from broker.access.errors import BadAclFile
from broker.access.explanation import explain
from broker.access.inet_address import peer_address
from broker.access.permission import Permission
from headrace.model import names
from headrace.protocol.bodies.acl import PlainAccessConfig
from web.errors import Invalid

ACTIONS: Final = ("pub", "sub", "admin")
_PERMISSIONS: Final = {"pub": Permission.PUB, "sub": Permission.SUB, "admin": None}
_SIGNED: Final = "-" * 12
"""Stands for every secret key: decisions do not depend on it."""


class Decision(Struct, frozen=True):
    """Whether it is allowed, and the rule that decides, as it stands in the file."""

    is_allowed: bool
    rule: str


class Decisions:
    """The rules of one broker."""

    def __init__(self, accounts: Sequence[PlainAccessConfig], white_addresses: Sequence[str]) -> None:
        """Raises Invalid, which names the account, for rules that brokers refuse."""
        try:
            found = rules_of(
                {
                    "globalWhiteRemoteAddresses": list(white_addresses),
                    "accounts": [_entry(account) for account in accounts],
                }
            )
        except BadAclFile as error:
            raise Invalid(str(error), "Correct the account.") from error
        self._rules = AccessRules(
            {account.access_key: account for account in reversed(found.accounts)}, found.white_addresses
        )

    def decide(self, access_key: str, action: str, resource: str, host: str = "") -> Decision:
        """Of a signed request of the account; `resource`: a topic, or `group:NAME`. Raises Invalid."""
        if action not in _PERMISSIONS:
            raise Invalid(
                "action={action} is not one of {choices}", action=repr(action[:80]), choices=", ".join(ACTIONS)
            )
        group = resource.removeprefix("group:")
        name = names.retry_topic(group) if group != resource else resource
        said = explain(self._rules, access_key, name, _PERMISSIONS[action], peer_address(host) if host else None)
        return Decision(said.is_allowed, said.rule)


_RULES: Final = (
    (re.compile("globalWhiteRemoteAddresses contains (.*)"), "The global whitelisted addresses contain {value}"),
    (re.compile("whiteRemoteAddress contains (.*)"), "The whitelisted address contains {value}"),
    (re.compile("there is no account (.*)"), "There is no account {value}"),
    (re.compile("every account may publish to (.*)"), "Every account may send to {value}"),
    (re.compile("admin: true()"), "Admin: yes"),
    (re.compile("admin: false()"), "Admin: no"),
    (
        re.compile("admin: true, without topicPerms and groupPerms of its own()"),
        "Admin: yes, without rules for topics and groups",
    ),
    (re.compile("defaultTopicPerm: (.*)"), "Default for topics: {value}"),
    (re.compile("defaultGroupPerm: (.*)"), "Default for groups: {value}"),
    (re.compile("topicPerms: (.*)"), "Topics: {value}"),
    (re.compile("groupPerms: (.*)"), "Groups: {value}"),
)
"""What brokers' rules are in the words of the forms: keys of the translations."""


def words_of_rule(rule: str) -> tuple[str, Mapping[str, str]] | None:
    """What pages show in place of a rule."""
    for pattern, words in _RULES:
        found = pattern.fullmatch(rule)
        if found is not None:
            return words, {"value": found[1]} if found[1] else {}
    return None


def _entry(account: PlainAccessConfig) -> dict[str, object]:
    return {
        "accessKey": account.access_key,
        "secretKey": _SIGNED,
        "whiteRemoteAddress": account.white_remote_address,
        "admin": account.admin,
        "defaultTopicPerm": account.default_topic_perm,
        "defaultGroupPerm": account.default_group_perm,
        "topicPerms": account.topic_perms,
        "groupPerms": account.group_perms,
    }
