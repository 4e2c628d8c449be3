from collections.abc import Iterable

import pytest

from headrace.model.data_version import DataVersion
from headrace.model.topic_config import TopicConfig
from nameserver.routes import BrokerIdentity, Master, Registration, RouteTable


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class Tables:
    """A route table, and short ways to register brokers with it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.routes = RouteTable(self.clock)

    def register(
        self,
        name: str = "broker-a",
        id_: int = 0,
        *,
        address: str | None = None,
        version: int = 1,
        topics: Iterable[TopicConfig] = (TopicConfig("T"),),
        connection: object = "connection",
        cluster: str = "C",
        filters: list[str] | None = None,
    ) -> Master | None:
        identity = self.identity(name, id_, address, cluster)
        registration = Registration(identity, f"ha-{identity.address}", DataVersion(5, version), tuple(topics), filters)
        return self.routes.register(registration, connection)

    def identity(
        self, name: str = "broker-a", id_: int = 0, address: str | None = None, cluster: str = "C"
    ) -> BrokerIdentity:
        return BrokerIdentity(cluster, name, id_, address or f"{name}-{id_}:10911")

    def addresses(self, topic: str = "T") -> dict[str, dict[int, str]]:
        route = self.routes.find_route(topic)
        return {broker.broker_name: broker.broker_addrs for broker in route.broker_datas} if route else {}

    def permissions(self, topic: str = "T") -> dict[str, int]:
        route = self.routes.find_route(topic)
        return {queue.broker_name: queue.perm for queue in route.queue_datas} if route else {}


@pytest.fixture
def tables() -> Tables:
    return Tables()


def test_unregistered_topic_has_no_route(tables: Tables) -> None:
    assert tables.routes.find_route("T") is None
    tables.register(topics=())
    assert tables.routes.find_route("T") is None


def test_master_registers_its_topics(tables: Tables) -> None:
    assert tables.register(topics=[TopicConfig("T", 3, 4, 6, sys_flag=1)]) is None
    route = tables.routes.find_route("T")
    assert route is not None
    (queue,), (broker,) = route.queue_datas, route.broker_datas
    assert (queue.broker_name, queue.read_queue_nums, queue.write_queue_nums) == ("broker-a", 3, 4)
    assert (queue.perm, queue.topic_sys_flag) == (6, 1)
    assert (broker.broker_name, broker.cluster, broker.broker_addrs) == ("broker-a", "C", {0: "broker-a-0:10911"})
    assert route.filter_server_table == {}


def test_slave_adds_its_address_without_topics_and_receives_its_master(tables: Tables) -> None:
    assert tables.register(id_=1, topics=[TopicConfig("Mine")]) is None
    assert tables.routes.topics() == []
    tables.register()
    assert tables.register(id_=1) == Master("broker-a-0:10911", "ha-broker-a-0:10911")
    assert tables.addresses() == {"broker-a": {1: "broker-a-1:10911", 0: "broker-a-0:10911"}}


def test_registering_again_removes_no_topic(tables: Tables) -> None:
    tables.register(topics=[TopicConfig("T"), TopicConfig("U")])
    tables.register(version=2, topics=[TopicConfig("U", 1, 1)])
    assert set(tables.routes.topics()) == {"T", "U"}


def test_topics_are_read_only_when_the_data_version_changed(tables: Tables) -> None:
    tables.register()
    assert tables.routes.wipe_write_permission("broker-a") == 1
    tables.register()
    assert tables.permissions() == {"broker-a": 4}
    tables.register(version=2)
    assert tables.permissions() == {"broker-a": 6}


def test_topics_are_read_for_a_new_broker_id_with_a_known_version(tables: Tables) -> None:
    tables.register(id_=1, address="same:1", topics=())
    tables.register(id_=0, address="same:1")
    assert tables.routes.topics() == ["T"]


def test_promoted_slave_loses_its_old_id(tables: Tables) -> None:
    tables.register()
    tables.register(id_=1, address="slave:1")
    tables.routes.unregister(tables.identity())
    tables.register(id_=0, address="slave:1", version=2)
    assert tables.addresses() == {"broker-a": {0: "slave:1"}}


def test_adding_write_permission_sets_6(tables: Tables) -> None:
    tables.register(topics=[TopicConfig("TBW102", permission=7), TopicConfig("R", permission=4)])
    assert tables.routes.wipe_write_permission("broker-a") == 2
    assert (tables.permissions("TBW102"), tables.permissions("R")) == ({"broker-a": 5}, {"broker-a": 4})
    assert tables.routes.add_write_permission("broker-a") == 2
    assert (tables.permissions("TBW102"), tables.permissions("R")) == ({"broker-a": 6}, {"broker-a": 6})
    assert tables.routes.wipe_write_permission("nobody") == 0


def test_permission_change_of_one_broker_does_not_affect_others(tables: Tables) -> None:
    tables.register()
    tables.register("broker-b", connection="b")
    assert tables.routes.wipe_write_permission("broker-b") == 1
    assert tables.permissions() == {"broker-a": 6, "broker-b": 4}


def test_lost_connection_removes_its_brokers_and_their_topics(tables: Tables) -> None:
    tables.register(topics=[TopicConfig("T"), TopicConfig("OnlyA")])
    tables.register("broker-b", connection="b")
    assert tables.routes.connection_lost("connection") == ["broker-a-0:10911"]
    assert tables.routes.topics() == ["T"]
    assert tables.addresses() == {"broker-b": {0: "broker-b-0:10911"}}
    assert tables.routes.clusters() == {"C": ["broker-b"]}
    assert tables.routes.connection_lost("b") == ["broker-b-0:10911"]
    assert (tables.routes.topics(), tables.routes.clusters(), tables.routes.brokers()) == ([], {}, {})
    assert tables.routes.connection_lost("b") == []
    assert not tables.routes.live_brokers()


def test_lost_old_connection_does_not_remove_a_reconnected_broker(tables: Tables) -> None:
    tables.register(connection="old")
    tables.register(connection="new")
    assert tables.routes.connection_lost("old") == []
    assert tables.addresses() == {"broker-a": {0: "broker-a-0:10911"}}
    assert tables.routes.connection_lost("new") == ["broker-a-0:10911"]


def test_topics_remain_when_the_master_is_lost_but_a_slave_remains(tables: Tables) -> None:
    tables.register()
    tables.register(id_=1, connection="slave")
    tables.routes.connection_lost("connection")
    assert tables.addresses() == {"broker-a": {1: "broker-a-1:10911"}}
    assert tables.register(id_=1, connection="slave") is None


def test_unregistering_has_the_same_effect_as_a_lost_connection(tables: Tables) -> None:
    tables.register()
    tables.register("broker-b", connection="b", topics=[TopicConfig("U")])
    tables.routes.unregister(tables.identity())
    assert tables.routes.topics() == ["U"]
    assert tables.routes.clusters() == {"C": ["broker-b"]}
    assert tables.routes.connection_lost("connection") == []
    tables.routes.unregister(tables.identity("nobody"))
    tables.routes.unregister(tables.identity("broker-b", 7))
    assert tables.addresses("U") == {"broker-b": {0: "broker-b-0:10911"}}


def test_expired_broker_is_dropped_and_its_connection_returned(tables: Tables) -> None:
    tables.register()
    tables.register("broker-b", connection="b")
    tables.clock.now_ms += 60_000
    tables.register("broker-b", connection="b")
    tables.clock.now_ms += 60_000
    assert tables.routes.drop_silent(120_000) == []
    tables.clock.now_ms += 1
    assert tables.routes.drop_silent(120_000) == [("broker-a-0:10911", "connection")]
    assert tables.addresses() == {"broker-b": {0: "broker-b-0:10911"}}


def test_query_counts_as_heartbeat_only_with_the_same_data_version(tables: Tables) -> None:
    known = DataVersion(5, 1)
    assert tables.routes.compare_data_version("broker-a-0:10911", known) == (True, None)
    tables.register()
    tables.clock.now_ms += 100_000
    assert tables.routes.compare_data_version("broker-a-0:10911", DataVersion(5, 2)) == (True, known)
    assert tables.routes.compare_data_version("broker-a-0:10911", DataVersion(6, 1)) == (True, known)
    assert tables.routes.live_brokers()["broker-a-0:10911"].heard_at_ms == tables.clock.now_ms - 100_000
    assert tables.routes.compare_data_version("broker-a-0:10911", known) == (False, known)
    assert tables.routes.live_brokers()["broker-a-0:10911"].heard_at_ms == tables.clock.now_ms


def test_topic_is_deleted_everywhere_or_in_one_cluster(tables: Tables) -> None:
    tables.register(topics=[TopicConfig("T"), TopicConfig("U")])
    tables.register("broker-b", connection="b", cluster="D", topics=[TopicConfig("T"), TopicConfig("U")])
    tables.routes.delete_topic("T", "D")
    assert tables.permissions("T") == {"broker-a": 6}
    tables.routes.delete_topic("T", "C")
    assert tables.routes.topics() == ["U"]
    tables.routes.delete_topic("U")
    assert tables.routes.topics() == []
    tables.routes.delete_topic("U")
    tables.routes.delete_topic("U", "no cluster")


def test_topic_lists(tables: Tables) -> None:
    tables.register(
        topics=[
            TopicConfig("plain"),
            TopicConfig("unit", sys_flag=1),
            TopicConfig("sub", sys_flag=2),
            TopicConfig("both", sys_flag=3),
        ]
    )
    tables.register("broker-b", connection="b", cluster="D", topics=[TopicConfig("plain"), TopicConfig("d")])
    routes = tables.routes
    assert routes.topics() == ["plain", "unit", "sub", "both", "d"]
    assert routes.topics_of_cluster("D") == ["plain", "d"]
    assert routes.topics_of_cluster("E") == []
    assert routes.unit_topics() == ["unit", "both"]
    assert routes.unit_subscription_topics() == ["sub", "both"]
    assert routes.unit_subscription_only_topics() == ["sub"]
    assert routes.system_topics() == ["C", "broker-a", "D", "broker-b"]
    assert routes.some_address() == "broker-a-0:10911"
    assert RouteTable(tables.clock).some_address() is None


def test_filter_servers_are_stored_replaced_kept_and_removed(tables: Tables) -> None:
    def known() -> dict[str, list[str]]:
        route = tables.routes.find_route("T")
        assert route is not None
        return route.filter_server_table

    tables.register(filters=["f:1"])
    assert known() == {"broker-a-0:10911": ["f:1"]}
    tables.register(filters=None)
    assert known() == {"broker-a-0:10911": ["f:1"]}
    tables.register(filters=["f:2"])
    assert known() == {"broker-a-0:10911": ["f:2"]}
    tables.register(filters=[])
    assert known() == {}


def test_route_requires_a_known_broker(tables: Tables) -> None:
    # A slave alone keeps the broker name; without the name, its master's topics are removed too.
    tables.register()
    tables.register("broker-b", connection="b", topics=())
    route = tables.routes.find_route("T")
    assert route is not None
    assert [broker.broker_name for broker in route.broker_datas] == ["broker-a"]


def test_lost_broker_name_is_removed_from_all_its_clusters(tables: Tables) -> None:
    tables.register()
    tables.register(cluster="D")
    assert tables.routes.clusters() == {"C": ["broker-a"], "D": ["broker-a"]}
    tables.routes.connection_lost("connection")
    assert tables.routes.clusters() == {}
