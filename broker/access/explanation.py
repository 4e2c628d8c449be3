"""Explanation: which rule allows or refuses what an account wants to do. For operators; requests are checked by AccessRules."""

from msgspec import Struct

from broker.access.access_rules import AccessRules
from broker.access.permission import Permission
from headrace.model import names


class Explanation(Struct, frozen=True):
    """The outcome, and the rule that decides, as an operator finds it in the file."""

    is_allowed: bool
    rule: str


def explain(
    rules: AccessRules, access_key: str, resource: str, needed: Permission | None, host: str | None = None
) -> Explanation:
    """Why the account may or may not use a topic or `%RETRY%group`; needed None: make an admin request. `host`: from where, if that counts."""
    if host is not None and rules.is_white(host):
        return Explanation(True, f"globalWhiteRemoteAddresses contains {host}")
    account = rules.account_for(access_key)
    if account is None:
        return Explanation(False, f"there is no account {access_key}")
    if host is not None and rules.is_white(host, account):
        return Explanation(True, f"whiteRemoteAddress contains {host}")
    if needed is None:
        return Explanation(account.is_admin, f"admin: {'true' if account.is_admin else 'false'}")
    if resource == names.TRACE_TOPIC and needed == Permission.PUB:
        return Explanation(True, f"every account may publish to {names.TRACE_TOPIC}")
    if account.is_admin and not account.resources:
        return Explanation(True, "admin: true, without topicPerms and groupPerms of its own")
    is_group = names.is_retry_topic(resource)
    own = account.resources.get(resource)
    if own is None:
        key, value = (
            ("defaultGroupPerm", account.default_group) if is_group else ("defaultTopicPerm", account.default_topic)
        )
        rule = f"{key}: {value.text}"
    else:
        name = names.group_of_retry_topic(resource) if is_group else resource
        rule = f"{'groupPerms' if is_group else 'topicPerms'}: {name}={own.text}"
    return Explanation(account.may(resource, needed), rule)
