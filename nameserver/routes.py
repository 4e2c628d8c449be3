"""RouteTable: which brokers serve which topic, and which are alive. In memory, without I/O.

    broker name   ─► topic ─► QueueData                    what masters said of their topics; goes at once with the broker
    broker name   ─► cluster, { broker id ─► address }     id 0 is the master
    cluster       ─► broker names
    address       ─► last heard of, data version, connection, HA address
    address       ─► filter servers                        of old brokers; mostly empty

Details (remoting spec 3.3 to 3.10):

- only masters change topics, and registering never removes one: a topic goes with its last broker name, or by request
- a master's topics are read only if its data version has changed, or its id is new to the name; so a wiped write permission stays wiped
- a broker belongs to the connection it registered over last; when that is lost the broker is dropped at once, an older one says nothing
- the name of a broker goes with its last address, and takes its topics along

A connection may be any object with identity; it is never called.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.model import permission as permissions
from headrace.model.data_version import DataVersion
from headrace.model.names import MASTER_ID
from headrace.model.topic_config import UNIT, UNIT_SUBSCRIPTION, TopicConfig
from headrace.protocol.bodies.route import BrokerData, QueueData, TopicRouteData

_TOPICS_AT_ONCE = 1000  # limit: a step of a millisecond or two


class BrokerIdentity(Struct, frozen=True):
    """The identity of a broker: one address under one id of a name in a cluster."""

    cluster: str
    name: str
    id: int
    address: str


class Registration(Struct, frozen=True):
    """The content of a registration. `filter_servers` None: not contained, so they are not changed."""

    broker: BrokerIdentity
    ha_address: str
    data_version: DataVersion
    topics: Iterable[TopicConfig] = ()
    filter_servers: list[str] | None = None


class Master(Struct, frozen=True):
    """The addresses of a slave's master."""

    address: str
    ha_address: str


class LiveBroker(Struct, frozen=True):
    """The state of a registered address."""

    heard_at_ms: int
    data_version: DataVersion
    connection: Hashable
    ha_address: str


class _Broker(Struct):
    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)


class RouteTable:
    """The tables and their operations. `clock_ms` returns the time; only differences matter."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._brokers: dict[str, _Broker] = {}
        # Of dicts only the keys count: they are sets in the order of arrival.
        self._clusters: dict[str, dict[str, None]] = {}
        self._live: dict[str, LiveBroker] = {}
        self._filter_servers: dict[str, list[str]] = {}
        self._addresses: dict[Hashable, dict[str, None]] = {}

    # -- brokers come and go ----------------------------------------------------------------------------------------------

    def register(self, registration: Registration, connection: Hashable) -> Master | None:
        """Registers a broker; for a slave with a live master, returns the master's addresses."""
        steps = self.register_steps(registration, connection)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                master: Master | None = done.value
                return master

    def register_steps(self, registration: Registration, connection: Hashable) -> Generator[None, None, Master | None]:
        """As `register`, in steps of some milliseconds. Topics that are left when the broker is dropped meanwhile, or registers again, are not taken."""
        broker = registration.broker
        self._clusters.setdefault(broker.cluster, {})[broker.name] = None
        known = self._brokers.setdefault(broker.name, _Broker(broker.cluster))
        # A broker that has changed its role: its address stood under another id.
        for other in [
            id_ for id_, address in known.addresses.items() if address == broker.address and id_ != broker.id
        ]:
            del known.addresses[other]
        is_first = broker.id not in known.addresses
        known.addresses[broker.id] = broker.address

        before = self._live.get(broker.address)
        is_changed = before is None or before.data_version != registration.data_version
        self._forget_live(broker.address)
        live = LiveBroker(self._clock_ms(), registration.data_version, connection, registration.ha_address)
        self._live[broker.address] = live
        self._addresses.setdefault(connection, {})[broker.address] = None
        if registration.filter_servers is not None:
            self._set_filter_servers(broker.address, registration.filter_servers)
        master = self._master_of(known) if broker.id != MASTER_ID else None
        if broker.id == MASTER_ID and (is_changed or is_first):
            for number, topic in enumerate(registration.topics, 1):
                self._queues.setdefault(broker.name, {})[topic.name] = QueueData(
                    broker.name, topic.read_queue_count, topic.write_queue_count, topic.permission, topic.sys_flag
                )
                if number % _TOPICS_AT_ONCE == 0:
                    yield
                    taken = self._live.get(broker.address)
                    if taken is None or taken.data_version != live.data_version:
                        break
        return master

    def unregister(self, broker: BrokerIdentity) -> None:
        """A broker unregisters."""
        self._forget_live(broker.address)
        self._filter_servers.pop(broker.address, None)
        known = self._brokers.get(broker.name)
        if known is not None:
            known.addresses.pop(broker.id, None)
            self._drop_if_empty(broker.name, broker.cluster)

    def connection_lost(self, connection: Hashable) -> list[str]:
        """Drops the brokers that registered over this connection last; returns their addresses."""
        lost = list(self._addresses.get(connection, ()))
        for address in lost:
            self._drop(address)
        return lost

    def drop_silent(self, older_than_ms: int) -> list[tuple[str, Hashable]]:
        """Drops the brokers that were last heard of longer ago; returns their addresses and connections, which are to be closed."""
        limit = self._clock_ms() - older_than_ms
        silent = [(address, live.connection) for address, live in self._live.items() if live.heard_at_ms < limit]
        for address, _ in silent:
            self._drop(address)
        return silent

    def compare_data_version(self, address: str, version: DataVersion) -> tuple[bool, DataVersion | None]:
        """Whether another version (or none) is known of the broker, and which. The same one counts as a heartbeat."""
        live = self._live.get(address)
        if live is None:
            return True, None
        if live.data_version == version:
            self._live[address] = replace(live, heard_at_ms=self._clock_ms())
            return False, live.data_version
        return True, live.data_version

    # -- questions --------------------------------------------------------------------------------------------------------

    def find_route(self, topic: str) -> TopicRouteData | None:
        """The topic's queues and the brokers that have them; None unless at least one of these brokers is known."""
        queues = [of_broker[topic] for of_broker in self._queues.values() if topic in of_broker]
        brokers = [self._broker_data(queue.broker_name) for queue in queues if queue.broker_name in self._brokers]
        if not brokers:
            return None
        filters = {
            address: list(self._filter_servers[address])
            for broker in brokers
            for address in broker.broker_addrs.values()
            if address in self._filter_servers
        }
        return TopicRouteData(queues, brokers, filters)

    def brokers(self) -> dict[str, BrokerData]:
        """All brokers by name."""
        return {name: self._broker_data(name) for name in self._brokers}

    def clusters(self) -> dict[str, list[str]]:
        """The broker names of each cluster."""
        return {cluster: list(names) for cluster, names in self._clusters.items()}

    def topics(self) -> list[str]:
        """All topics."""
        return _distinct(self._queues.values())

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """The topics that a broker of the cluster has; none for an unknown cluster."""
        return _distinct(self._queues.get(name, {}) for name in self._clusters.get(cluster, ()))

    def system_topics(self) -> list[str]:
        """The names of all clusters and brokers: each is also the name of a topic."""
        return list(dict.fromkeys(name for cluster, names in self._clusters.items() for name in (cluster, *names)))

    def some_address(self) -> str | None:
        """The address of any broker."""
        return next((address for broker in self._brokers.values() for address in broker.addresses.values()), None)

    def unit_topics(self) -> list[str]:
        """Topics with the unit bit."""
        return [topic for topic, flag in self._sys_flags() if flag & UNIT]

    def unit_subscription_topics(self) -> list[str]:
        """Topics with the unit-subscription bit."""
        return [topic for topic, flag in self._sys_flags() if flag & UNIT_SUBSCRIPTION]

    def unit_subscription_only_topics(self) -> list[str]:
        """Topics with the unit-subscription bit and without the unit bit."""
        return [topic for topic, flag in self._sys_flags() if flag & (UNIT_SUBSCRIPTION | UNIT) == UNIT_SUBSCRIPTION]

    def live_brokers(self) -> Mapping[str, LiveBroker]:
        """The state of each address, read-only."""
        return self._live

    # -- an operator's changes --------------------------------------------------------------------------------------------

    def wipe_write_permission(self, broker_name: str) -> int:
        """Removes the write permission of this broker's topics; returns their number."""
        return self._change_permission(broker_name, lambda permission: permission & ~permissions.WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Adds the write permission to this broker's topics; returns their number."""
        # compat: the permission becomes read and write whatever it was, so a template topic loses its inherit bit.
        return self._change_permission(broker_name, lambda _: permissions.READ | permissions.WRITE)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Removes a topic, or its queues at the brokers of one cluster."""
        for name in self._queues if cluster is None else self._clusters.get(cluster, ()):
            self._queues.get(name, {}).pop(topic, None)

    # -- within -----------------------------------------------------------------------------------------------------------

    def _broker_data(self, name: str) -> BrokerData:
        broker = self._brokers[name]
        return BrokerData(name, broker.cluster, dict(broker.addresses))

    def _sys_flags(self) -> Iterable[tuple[str, int]]:
        flags: dict[str, int] = {}
        for queues in self._queues.values():
            for topic, queue in queues.items():
                flags.setdefault(topic, queue.topic_sys_flag)
        return flags.items()

    def _master_of(self, broker: _Broker) -> Master | None:
        address = broker.addresses.get(MASTER_ID)
        live = self._live.get(address) if address is not None else None
        return Master(address, live.ha_address) if address is not None and live is not None else None

    def _set_filter_servers(self, address: str, servers: list[str]) -> None:
        if servers:
            self._filter_servers[address] = list(servers)
        else:
            self._filter_servers.pop(address, None)

    def _change_permission(self, broker_name: str, change: Callable[[int], int]) -> int:
        queues = self._queues.get(broker_name, {})
        for queue in queues.values():
            queue.perm = change(queue.perm)
        return len(queues)

    def _forget_live(self, address: str) -> None:
        live = self._live.pop(address, None)
        if live is not None:
            addresses = self._addresses[live.connection]
            del addresses[address]
            if not addresses:
                del self._addresses[live.connection]

    def _drop(self, address: str) -> None:
        """Removes an address as if its broker had unregistered, whatever its name and id."""
        self._forget_live(address)
        self._filter_servers.pop(address, None)
        for name, broker in list(self._brokers.items()):
            for id_ in [id_ for id_, known in broker.addresses.items() if known == address]:
                del broker.addresses[id_]
                self._drop_if_empty(name, None)

    def _drop_if_empty(self, name: str, cluster: str | None) -> None:
        """Removes a broker name without addresses: from its cluster (None: from all of them), and its queues of all topics."""
        if self._brokers[name].addresses:
            return
        del self._brokers[name]
        for each in list(self._clusters) if cluster is None else [cluster]:
            names = self._clusters.get(each)
            if names is not None:
                names.pop(name, None)
                if not names:
                    del self._clusters[each]
        self._queues.pop(name, None)


def _distinct(tables: Iterable[dict[str, QueueData]]) -> list[str]:
    """The topics of all these tables."""
    topics: dict[str, object] = {}
    for table in tables:
        topics |= table
    return list(topics)
