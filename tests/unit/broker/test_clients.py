"""The table of clients: who is in which group, and who is told of a change."""

from dataclasses import dataclass, field

from broker.clients.clients import Client, ClientTable, ConsumerGroup
from headrace.model.subscription import SubscriptionData
from headrace.protocol.language import LanguageCode


@dataclass(eq=False)
class FakeConnection:
    remote: str = "10.0.0.1:1"
    closed: list[str] = field(default_factory=list)

    def close(self, reason: str) -> None:
        self.closed.append(reason)


class Table:
    """A table, and the groups whose members have been told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.table = ClientTable(lambda group: self.told.append(group.name))

    def consumer(
        self, group: str, connection: FakeConnection, *wanted: SubscriptionData, client_id: str = "cid", now_ms: int = 0
    ) -> list[str]:
        """Registers a consumer; returns who was told because of it."""
        self.told.clear()
        self.table.register_consumer(
            group,
            client(connection, client_id, now_ms),
            "CONSUME_PASSIVELY",
            "CLUSTERING",
            "CONSUME_FROM_LAST_OFFSET",
            wanted,
        )
        return list(self.told)

    def group(self, name: str) -> ConsumerGroup:
        found = self.table.consumer_group(name)
        assert found is not None
        return found


def client(connection: FakeConnection, client_id: str = "cid", now_ms: int = 0) -> Client:
    return Client(connection, client_id, LanguageCode.JAVA, 409, now_ms)  # type: ignore[arg-type]


def wants(topic: str, expression: str = "*", version: int = 1) -> SubscriptionData:
    return SubscriptionData.build(topic, expression, sub_version=version)


def test_new_members_and_topics_are_changes_and_repeated_heartbeats_are_not() -> None:
    table, one, two = Table(), FakeConnection(), FakeConnection()
    assert table.consumer("G", one, wants("A")) == ["G"]
    assert table.consumer("G", one, wants("A")) == []
    assert table.consumer("G", two, wants("A")) == ["G"]
    assert table.consumer("G", one, wants("A"), wants("B")) == ["G"]
    assert table.consumer("G", one, wants("B")) == ["G"]


def test_new_expression_replaces_the_old_without_a_notification() -> None:
    table, one = Table(), FakeConnection()
    table.consumer("G", one, wants("A", "x", 5))
    assert table.consumer("G", one, wants("A", "y", 6)) == []
    assert table.group("G").subscriptions["A"].sub_string == "y"
    table.consumer("G", one, wants("A", "older", 4))
    table.consumer("G", one, wants("A", "as old", 6))
    assert table.group("G").subscriptions["A"].sub_string == "y"


def test_subscriptions_belong_to_the_group_and_the_last_heartbeat_wins() -> None:
    table, one, two = Table(), FakeConnection(), FakeConnection()
    table.consumer("G", one, wants("A"))
    assert table.consumer("G", two, wants("B")) == ["G"]
    assert set(table.group("G").subscriptions) == {"B"}
    assert table.table.groups_subscribing("B") == {"G"}
    assert table.table.groups_subscribing("A") == set()


def test_connection_is_one_member_whatever_its_client_id() -> None:
    table, one = Table(), FakeConnection()
    table.consumer("G", one, client_id="first")
    assert table.consumer("G", one, client_id="second") == []
    assert table.group("G").client_ids() == ["second"]
    assert table.group("G").find_client("first") is None


def test_closed_connection_leaves_its_groups_and_other_members_are_notified() -> None:
    table, one, two = Table(), FakeConnection(), FakeConnection()
    for group in ("G", "H"):
        table.consumer(group, one)
        table.consumer(group, two)
    table.table.register_producer("P", client(one))
    table.told.clear()
    table.table.connection_closed(one)  # type: ignore[arg-type]
    assert sorted(table.told) == ["G", "H"]
    assert table.group("G").client_ids() == ["cid"]
    assert table.table.producers("P") == []
    table.table.connection_closed(two)  # type: ignore[arg-type]
    assert table.table.consumer_groups() == {}
    assert table.table._groups_of == {}


def test_unregistering_affects_only_the_named_groups() -> None:
    table, one = Table(), FakeConnection()
    table.consumer("G", one)
    table.consumer("H", one)
    table.table.register_producer("G", client(one))
    table.table.unregister(one, None, "G")  # type: ignore[arg-type]
    assert table.table.consumer_group("G") is None
    assert table.table.consumer_group("H") is not None
    assert len(table.table.producers("G")) == 1
    table.table.unregister(one, "G", "unknown")  # type: ignore[arg-type]
    assert table.table.producer_groups() == {}


def test_member_silent_for_two_minutes_is_removed_without_a_notification_and_disconnected() -> None:
    table, silent, alive = Table(), FakeConnection(), FakeConnection()
    table.consumer("G", silent, now_ms=0)
    table.consumer("G", alive, now_ms=60_000, client_id="alive")
    table.table.register_producer("P", client(silent, now_ms=0))
    table.told.clear()
    table.table.expire(120_000)
    assert silent.closed == []
    table.table.expire(120_001)
    assert silent.closed
    assert alive.closed == []
    assert table.told == []
    assert table.group("G").client_ids() == ["alive"]
    assert table.table.producer_groups() == {}


def test_client_silent_in_one_group_stays_in_its_other_groups() -> None:
    table, one, other = Table(), FakeConnection(), FakeConnection()
    table.consumer("OLD", one, now_ms=0)
    table.consumer("G", one, now_ms=100_000)
    table.consumer("G", other, now_ms=100_000)
    table.told.clear()
    table.table.expire(130_000)
    assert table.table.consumer_group("OLD") is None
    assert len(one.closed) == 1
    table.table.connection_closed(one)  # type: ignore[arg-type]
    assert table.told == ["G"]
