"""AccessRules: the rules of all ACL files at one moment. Immutable; a reload makes another one.

For whoever checks requests:

    control.rules                          the AccessRules in force (AccessControl); control.version grows with each change, and
    control.on_change(listener)            calls listener(rules) on the broker's event loop
    rules.check(host, command)             None: allowed; else the remark of the answer, whose code is SYSTEM_ERROR (1), header always JSON
    host = peer_address(peer's address)    once for each connection (broker.access.inet_address)

`check` is, in RocketMQ's order, made of these steps; a hot path may cache all of them but the signature:

    rules.is_white(host)                   a global white address: nothing else is checked
    rules.account_for(access_key)          the Account, or None: no_account_remark(access_key)
    rules.is_white(host, account)          a white address of the account: nothing else is checked
    is_signed(account.secret_key, ext, body)      in constant time (headrace.protocol.acl_signature)
    needed_permissions(command)            {topic or %RETRY%group: permission} (broker.access.needed_permissions)
    rules.refusal_of(account, code, needs) None: allowed; else the remark. It depends on nothing but its arguments and the rules
    account.may(resource, permission)      one of its steps

Secrets are in `Account.secret_key` only, and in no text that is made here.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from broker.access.account import Account
from broker.access.address_pattern import AddressPattern
from broker.access.needed_permissions import ADMIN_CODES, Needs, needed_permissions
from broker.access.permission import Permission
from headrace.errors import RemoteProtocolError
from headrace.model import names
from headrace.protocol.acl_signature import ACCESS_KEY, is_signed
from headrace.protocol.remoting_command import RemotingCommand

# compat: tools match on the exception's name and text; what follows the comma is the place in RocketMQ 4.9.7 where it is thrown.
_EXCEPTION: Final = "org.apache.rocketmq.acl.common.AclException: "


class AccessRules(Struct, frozen=True):
    """Accounts by access key, and addresses that may do everything."""

    accounts: Mapping[str, Account] = field(default_factory=dict)
    white_addresses: tuple[AddressPattern, ...] = ()

    def check(self, host: str, command: RemotingCommand) -> str | None:
        """None if the request of the peer at `host` is allowed, else the remark of the refusal."""
        try:
            needs = needed_permissions(command) if command.ext_fields is not None else {}
        except RemoteProtocolError as error:
            return unreadable_remark(error)
        if self.is_white(host):
            return None
        access_key = command.ext.get(ACCESS_KEY)
        if access_key is None:
            return NO_ACCESS_KEY
        account = self.account_for(access_key)
        if account is None:
            return no_account_remark(access_key)
        if self.is_white(host, account):
            return None
        if not is_signed(account.secret_key, command.ext, command.body):
            return bad_signature_remark(access_key)
        return self.refusal_of(account, command.code, needs)

    def account_for(self, access_key: str) -> Account | None:
        """The account of an access key."""
        return self.accounts.get(access_key)

    def is_white(self, host: str, account: Account | None = None) -> bool:
        """Whether requests from the host are allowed without further checks: all of them, or those of an account."""
        if account is not None:
            return account.white_addresses.matches(host)
        return any(pattern.matches(host) for pattern in self.white_addresses)

    def refusal_of(self, account: Account, code: int, needs: Needs) -> str | None:
        """None if the account may make a request of this code and these needs, else the remark. The signature is not part of it."""
        if needs.get(names.TRACE_TOPIC) == Permission.PUB:
            return None
        if code in ADMIN_CODES and not account.is_admin:
            return not_admin_remark(account, code)
        for resource, permission in needs.items():
            if not account.may(resource, permission):
                return no_permission_remark(account, resource)
        return None


_MANAGER: Final = "org.apache.rocketmq.acl.plain.PlainPermissionManager"


def _remark(text: str, method: str, line: int) -> str:
    return f"{_EXCEPTION}{text}, {_MANAGER}.{method}(PlainPermissionManager.java:{line})"


NO_ACCESS_KEY: Final = _remark("No accessKey is configured", "validate", 663)


def no_account_remark(access_key: str) -> str:
    """The access key is unknown."""
    return _remark(f"No acl config for {access_key}", "validate", 667)


def bad_signature_remark(access_key: str) -> str:
    """The signature does not belong to the request and the account's secret."""
    return _remark(f"Check signature failed for accessKey={access_key}", "validate", 683)


def not_admin_remark(account: Account, code: int) -> str:
    """The request is for admins."""
    text = f"Need admin permission for request code={code:d}, but accessKey={account.access_key} is not"
    return _remark(text, "checkPerm", 580)


def no_permission_remark(account: Account, resource: str) -> str:
    """The account lacks the permission on a topic or group, by default or by an entry of its own."""
    is_group = names.is_retry_topic(resource)
    what = f"group:{names.group_of_retry_topic(resource)}" if is_group else f"topic:{resource}"
    return _remark(f"No default permission for {what}", "checkPerm", 610 if resource in account.resources else 605)


def unreadable_remark(error: RemoteProtocolError) -> str:
    """What the request needs cannot be read."""
    return (
        f"{_EXCEPTION}{error}, org.apache.rocketmq.acl.plain.PlainAccessValidator.parse(PlainAccessValidator.java:134)"
    )
