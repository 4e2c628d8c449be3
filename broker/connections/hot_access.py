"""HotAccess: permissions of the accounts that sign sends and pulls, for the hot paths.

It remembers the permissions that were looked up under the rules in force. The signature of each request is checked by the hot paths themselves.
"""

from typing import Final

from broker.access.access_rules import AccessRules
from broker.access.needed_permissions import Needs
from broker.access.permission import Permission
from broker.signed_frame import SigningKey
from headrace.model import names
from headrace.protocol.request_code import RequestCode

_MAX_KEPT: Final = 65_536  # limit: pairs of account and topic, each a few hundred bytes


class HotAccess:
    """One for all connections of a broker. None as an answer leaves the request to the plain path, which knows all rules."""

    def __init__(self, rules: AccessRules) -> None:
        self.rules = rules
        self._senders: dict[tuple[bytes, str], SigningKey] = {}
        self._consumers: dict[tuple[bytes, str, str], SigningKey] = {}

    def replace_rules(self, rules: AccessRules) -> None:
        """Uses these rules from now on."""
        self.rules = rules
        self._senders.clear()
        self._consumers.clear()

    def key_of_sender(self, access_key: bytes, topic: str) -> SigningKey | None:
        """The signing key of the account if it may send to the topic."""
        key = self._senders.get((access_key, topic))
        if key is None:
            # Sends to retry topics need a permission on the group.
            if names.is_retry_topic(topic):
                return None
            key = self._look_up(access_key, RequestCode.SEND_MESSAGE_V2, {topic: Permission.PUB})
            if key is not None:
                _make_room(self._senders)
                self._senders[access_key, topic] = key
        return key

    def key_of_consumer(self, access_key: bytes, group: str, topic: str) -> SigningKey | None:
        """The signing key of the account if it may pull from the topic for the group."""
        key = self._consumers.get((access_key, group, topic))
        if key is None:
            needs = {topic: Permission.SUB, names.retry_topic(group): Permission.SUB}
            key = self._look_up(access_key, RequestCode.PULL_MESSAGE, needs)
            if key is not None:
                _make_room(self._consumers)
                self._consumers[access_key, group, topic] = key
        return key

    def _look_up(self, access_key: bytes, code: RequestCode, needs: Needs) -> SigningKey | None:
        account = self.rules.account_for(access_key.decode("utf-8", "replace"))
        if account is None or self.rules.refusal_of(account, code, needs) is not None:
            return None
        return SigningKey(account.secret_key.encode())


def _make_room(kept: dict[tuple[bytes, str], SigningKey] | dict[tuple[bytes, str, str], SigningKey]) -> None:
    if len(kept) >= _MAX_KEPT:
        kept.clear()
