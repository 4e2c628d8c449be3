"""ConnectedClients: the part of the client table that admin requests use, as protocols.

Administration depends on these few methods and not on the table itself. Times are wall-clock milliseconds.
"""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from headrace.model.subscription import SubscriptionData
from headrace.protocol.language import LanguageCode


class Peer(Protocol):
    """The other end of a connection."""

    @property
    def remote(self) -> str:
        """Its address, `ip:port`."""


class ConnectedClient(Protocol):
    """One connection of a producer or consumer, as its last heartbeat described it."""

    @property
    def connection(self) -> Peer:
        """Where it is connected from."""

    @property
    def client_id(self) -> str:
        """`ip@instance`, unique in its group."""

    @property
    def language(self) -> LanguageCode | None:
        """None if it is unknown."""

    @property
    def version(self) -> int:
        """The release of its client library, as an ordinal."""

    @property
    def last_update_ms(self) -> int:
        """When it last sent a heartbeat."""


class ConnectedConsumerGroup(Protocol):
    """A consumer group with at least one member."""

    @property
    def consume_type(self) -> str:
        """CONSUME_ACTIVELY (pull) or CONSUME_PASSIVELY (push)."""

    @property
    def message_model(self) -> str:
        """CLUSTERING or BROADCASTING."""

    @property
    def consume_from_where(self) -> str:
        """CONSUME_FROM_LAST_OFFSET and so on."""

    @property
    def subscriptions(self) -> Mapping[str, SubscriptionData]:
        """The group's subscriptions by topic."""

    @property
    def clients(self) -> Mapping[Any, ConnectedClient]:
        """Its members by connection."""


class ConnectedClients(Protocol):
    """The table of connected producers and consumers."""

    def consumer_group(self, group: str) -> ConnectedConsumerGroup | None:
        """The group, if any member is connected."""

    def producers(self, group: str) -> Collection[ConnectedClient]:
        """The connected producers of a group; none if the group is unknown."""

    def producer_groups(self) -> Mapping[str, Collection[ConnectedClient]]:
        """All connected producers by group."""

    def groups_subscribing(self, topic: str) -> Collection[str]:
        """The groups with a connected member that subscribe to the topic."""


def subscribes_elsewhere(clients: ConnectedClients, group: str, topic: str) -> bool:
    """Whether the group is connected and subscribes only to other topics: its old offsets of this topic are then omitted."""
    online = clients.consumer_group(group)
    return online is not None and bool(online.subscriptions) and topic not in online.subscriptions
