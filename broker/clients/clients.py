"""ClientTable: the connected producers and consumers by group, from their heartbeats (remoting spec 4.14).

Only in memory. Subscriptions belong to the group, not to the member: the last heartbeat wins. When a connection is closed,
its clients are removed at once; connections silent for 120 s are closed.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from headrace.model.subscription import SubscriptionData
from headrace.protocol.language import LanguageCode
from headrace.remoting.connection import Connection

logger = logging.getLogger(__name__)

CLIENT_EXPIRED_MS = 120_000
_LIVE_MS = 65_000  # limit: clients send a heartbeat every 30 s; two of them, and some seconds for a busy machine
_LOGGED_APART = 16  # limit: lines for one heartbeat

MembersChanged = Callable[["ConsumerGroup"], None]


class Client(Struct):
    """A client on one connection."""

    connection: Connection
    client_id: str
    language: LanguageCode | None
    version: int
    last_update_ms: int


class Membership(Struct, frozen=True):
    """The content of a member's last heartbeat, and the time of its registration (ms)."""

    since_ms: int
    message_model: str
    subscriptions: tuple[SubscriptionData, ...]


class ConsumerGroup(Struct):
    """The connected consumers of a group, and its subscriptions."""

    name: str
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    clients: dict[Connection, Client] = field(default_factory=dict)
    members: dict[Connection, Membership] = field(default_factory=dict)
    """The same connections as `clients`."""
    wanted_since_s: dict[str, float] = field(default_factory=dict)
    """Since when each topic is among the subscriptions, by the monotonic clock."""

    def client_ids(self) -> list[str]:
        """The client ids, one for each connection."""
        return [client.client_id for client in self.clients.values()]

    def live_clients(self, now_ms: int) -> list[Client]:
        """Members with a recent heartbeat: a connection may stay open for two minutes after its client has died."""
        return [client for client in self.clients.values() if now_ms - client.last_update_ms <= _LIVE_MS]

    def find_client(self, client_id: str) -> Client | None:
        """The member with this id."""
        return next((client for client in self.clients.values() if client.client_id == client_id), None)


class ClientTable:
    """All clients. `members_changed` is called after a member or a topic was added to a group or removed."""

    def __init__(self, members_changed: MembersChanged, clock: Callable[[], float] = time.monotonic) -> None:
        self._members_changed = members_changed
        self._clock = clock
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Connection, Client]] = {}
        self._groups_of: dict[Connection, set[tuple[bool, str]]] = {}
        self._listeners: list[Callable[[], None]] = []

    # -- asking -----------------------------------------------------------------------------------------------------------

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """The group, if one of its consumers is connected."""
        return self._consumers.get(group)

    def consumer_groups(self) -> Mapping[str, ConsumerGroup]:
        """All groups with a consumer connected."""
        return self._consumers

    def producers(self, group: str) -> list[Client]:
        """The producers of a group."""
        return list(self._producers.get(group, {}).values())

    def producer_groups(self) -> dict[str, list[Client]]:
        """All producers by group."""
        return {group: list(clients.values()) for group, clients in self._producers.items()}

    def groups_subscribing(self, topic: str) -> set[str]:
        """The groups whose connected consumers subscribe to this topic."""
        return {name for name, group in self._consumers.items() if topic in group.subscriptions}

    def on_change(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when a consumer is registered or unregistered, or a group's subscriptions change."""
        self._listeners.append(listener)

    # -- changing ---------------------------------------------------------------------------------------------------------

    def register_producer(self, group: str, client: Client) -> None:
        """Registers a producer from its heartbeat."""
        self._producers.setdefault(group, {})[client.connection] = client
        self._groups_of.setdefault(client.connection, set()).add((False, group))

    def register_consumer(
        self,
        group_name: str,
        client: Client,
        consume_type: str,
        message_model: str,
        consume_from_where: str,
        subscriptions: Iterable[SubscriptionData],
    ) -> None:
        """Registers a consumer from its heartbeat; notifies the members if members or topics have changed."""
        group = self._consumers.get(group_name)
        if group is None:
            group = self._consumers[group_name] = ConsumerGroup(group_name)
        known = group.clients.get(client.connection)
        is_new = known is None
        if known is not None and known.client_id != client.client_id:
            logger.warning(
                "consumer changed its client id group=%s from=%s to=%s remote=%s",
                group_name, known.client_id, client.client_id, client.connection.remote,
            )  # fmt: skip
        group.clients[client.connection] = client
        member = group.members.get(client.connection)
        since_ms = client.last_update_ms if member is None else member.since_ms
        subscriptions = tuple(subscriptions)
        group.members[client.connection] = Membership(since_ms, message_model, subscriptions)
        self._groups_of.setdefault(client.connection, set()).add((True, group_name))
        before = group.subscriptions
        is_other_kind = group.message_model != message_model
        group.consume_type = consume_type
        group.message_model = message_model
        group.consume_from_where = consume_from_where
        topics_changed = _take_subscriptions(group, subscriptions, self._clock())
        if is_new or is_other_kind or group.subscriptions is not before:
            self._notify_listeners()
        if is_new:
            logger.info(
                "consumer registered group=%s client=%s remote=%s",
                group_name,
                client.client_id,
                client.connection.remote,
            )
        if is_new or topics_changed:
            self._members_changed(group)

    def unregister(self, connection: Connection, producer_group: str | None, consumer_group: str | None) -> None:
        """Removes the connection from these groups."""
        if producer_group:
            self._remove(connection, False, producer_group)
        if consumer_group:
            self._remove(connection, True, consumer_group)

    def connection_closed(self, connection: Connection) -> None:
        """Removes the connection from all groups."""
        for is_consumer, group in list(self._groups_of.get(connection, ())):
            self._remove(connection, is_consumer, group)

    def expire(self, now_ms: int | None = None) -> None:
        """Removes clients from groups for which they have sent no heartbeat for 120 s, and closes their connections.

        # compat: members of such a group are not notified; those of the connection's other groups are, when it is closed.
        """
        now = int(time.time() * 1000) if now_ms is None else now_ms
        silent = [
            (is_consumer, name, client)
            for is_consumer, table in ((False, self._producers), (True, self._clients_by_group()))
            for name, clients in table.items()
            for client in clients.values()
            if now - client.last_update_ms > CLIENT_EXPIRED_MS
        ]
        for is_consumer, name, client in silent:
            logger.warning(
                "client expired client=%s group=%s remote=%s", client.client_id, name, client.connection.remote
            )
            self._remove(client.connection, is_consumer, name, notify=False)
            client.connection.close("no heartbeat for 120 s")

    def _clients_by_group(self) -> dict[str, dict[Connection, Client]]:
        return {name: group.clients for name, group in self._consumers.items()}

    def _remove(self, connection: Connection, is_consumer: bool, name: str, notify: bool = True) -> None:
        groups = self._groups_of.get(connection, set())
        groups.discard((is_consumer, name))
        if not groups:
            self._groups_of.pop(connection, None)
        if not is_consumer:
            clients = self._producers.get(name, {})
            clients.pop(connection, None)
            if not clients:
                self._producers.pop(name, None)
            return
        group = self._consumers.get(name)
        if group is None or connection not in group.clients:
            return
        client = group.clients.pop(connection)
        del group.members[connection]
        logger.info("consumer unregistered group=%s client=%s remote=%s", name, client.client_id, connection.remote)
        if not group.clients:
            del self._consumers[name]
        self._notify_listeners()
        if notify:
            self._members_changed(group)

    def _notify_listeners(self) -> None:
        for listener in self._listeners:
            listener()


def _take_subscriptions(group: ConsumerGroup, subscriptions: Iterable[SubscriptionData], now_s: float) -> bool:
    """Sets the group's subscriptions, in a new table if they differ. Returns whether a topic was added or removed."""
    listed = {subscription.topic: subscription for subscription in subscriptions}
    known = group.subscriptions
    taken = {
        topic: subscription
        if topic not in known or subscription.sub_version > known[topic].sub_version
        else known[topic]
        for topic, subscription in listed.items()
    }
    if taken == known:
        return False
    group.subscriptions = taken
    group.wanted_since_s = {topic: group.wanted_since_s.get(topic, now_s) for topic in taken}
    came, went = taken.keys() - known.keys(), known.keys() - taken.keys()
    for topic in sorted(came)[:_LOGGED_APART]:
        logger.info(
            "subscription added group=%s topic=%s expression=%r", group.name, topic, taken[topic].sub_string[:200]
        )
    for topic in sorted(went)[:_LOGGED_APART]:
        logger.info("subscription removed group=%s topic=%s", group.name, topic)
    if max(len(came), len(went)) > _LOGGED_APART:
        logger.info("subscriptions changed group=%s added=%d removed=%d", group.name, len(came), len(went))
    return bool(came or went)
