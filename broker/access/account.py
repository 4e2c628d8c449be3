"""Account: an access key with its secret, its addresses and its permissions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.access.address_pattern import NOTHING, AddressPattern
from broker.access.permission import Permission
from headrace.model import names


@dataclass(frozen=True, slots=True)
class Account:
    """One entry of `accounts`. Its text (`repr`) does not contain the secret key."""

    access_key: str
    secret_key: str = field(repr=False)
    is_admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    resources: Mapping[str, Permission] = field(default_factory=dict)
    """By topic; a group is the topic of its retried messages, `%RETRY%group`."""
    white_addresses: AddressPattern = NOTHING
    """Requests from these addresses are allowed without a look at signature and permissions."""

    def permission_on(self, resource: str) -> Permission:
        """What the account may do with a topic or group: its own entry, else the default for its kind."""
        owned = self.resources.get(resource)
        if owned is not None:
            return owned
        return self.default_group if names.is_retry_topic(resource) else self.default_topic

    def may(self, resource: str, needed: Permission) -> bool:
        """Whether the account may do what needs `needed` on a topic or group."""
        # compat: an admin with permissions of its own has no others.
        return (self.is_admin and not self.resources) or self.permission_on(resource).includes(needed)
