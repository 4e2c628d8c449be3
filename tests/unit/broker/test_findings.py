"""What is noticed of consumer groups: members that disagree, ids that two clients have, queues that nobody owns; and when it is said."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from broker.clients.clients import Client, ClientTable
from broker.clients.queue_visits import QueueVisits
from broker.findings.board import FindingBoard
from broker.findings.differing_members import differing_members
from broker.findings.finding import Finding
from broker.findings.shared_client_ids import shared_client_ids
from broker.findings.unowned_queues import GRACE_S, unowned_queues
from headrace.model.subscription import SubscriptionData
from headrace.protocol.language import LanguageCode


@dataclass(eq=False)
class FakeConnection:
    remote: str

    def close(self, reason: str) -> None:
        """Nothing to close."""


def wants(topic: str, expression: str = "*", kind: str = "TAG", version: int = 1) -> SubscriptionData:
    return SubscriptionData.build(topic, expression, kind, version)


class World:
    """Groups, a clock, and who was at which queue."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.table = ClientTable(lambda _group: None, lambda: self.now_s)
        self.visits = QueueVisits(lambda: self.now_s)
        self.read_queues = {"T": 4}
        self.connections: dict[str, FakeConnection] = {}

    def beat(
        self,
        remote: str,
        *wanted: SubscriptionData,
        client_id: str | None = None,
        group: str = "G",
        model: str = "CLUSTERING",
        kind: str = "CONSUME_PASSIVELY",
    ) -> None:
        """A heartbeat."""
        connection = self.connections.setdefault(remote, FakeConnection(remote))
        client = Client(connection, client_id or remote, LanguageCode.JAVA, 409, int(self.now_s * 1000))  # type: ignore[arg-type]
        self.table.register_consumer(group, client, kind, model, "CONSUME_FROM_LAST_OFFSET", wanted or (wants("T"),))

    def leave(self, remote: str) -> None:
        self.table.connection_closed(self.connections.pop(remote))  # type: ignore[arg-type]

    def differing(self) -> list[Finding]:
        return list(differing_members(self.table.consumer_groups().values(), int(self.now_s * 1000)))

    def shared(self) -> list[Finding]:
        return list(shared_client_ids(self.table.consumer_groups().values(), int(self.now_s * 1000)))

    def unowned(self) -> list[Finding]:
        groups = self.table.consumer_groups().values()
        return list(unowned_queues(groups, lambda topic: self.read_queues.get(topic, 0), self.visits.of, self.now_s))


@pytest.fixture
def world() -> World:
    return World()


# -- members that disagree ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        (wants("T"), wants("U")),
        (wants("U"),),
        (wants("T", "a"),),
        (wants("T", "*", "SQL92"),),
    ],
)
def test_different_subscriptions_in_a_group_are_a_finding(world: World, other: tuple[SubscriptionData, ...]) -> None:
    world.beat("10.0.0.1:1", wants("T"))
    world.beat("10.0.0.2:1", *other)
    (finding,) = world.differing()
    assert (finding.group, finding.kind) == ("G", "different subscriptions")
    assert len(finding.members) == 2
    assert any("10.0.0.1:1" in member and "T (*)" in member for member in finding.members)
    world.beat("10.0.0.2:1", wants("T"))
    assert world.differing() == []


def test_different_message_models_in_a_group_are_a_finding(world: World) -> None:
    world.beat("10.0.0.1:1", model="CLUSTERING")
    world.beat("10.0.0.2:1", model="BROADCASTING")
    (finding,) = world.differing()
    assert {"broadcasting" in member for member in finding.members} == {True, False}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (wants("T", "a||b", version=1), wants("T", " b || a ", version=2)),
        (wants("T", "*"), wants("T", "")),
        (wants("T", "n > 1", "SQL92", 5), wants("T", "n > 1", "SQL92", 6)),
    ],
)
def test_equivalent_subscriptions_are_not_a_finding(
    world: World, one: SubscriptionData, other: SubscriptionData
) -> None:
    world.beat("10.0.0.1:1", one, wants("%RETRY%G"))
    world.beat("10.0.0.2:1", other)
    assert world.differing() == []


def test_finding_counts_members_per_subscription(world: World) -> None:
    for number in range(20):
        world.beat(f"10.0.0.{number}:1", wants("T"))
    world.beat("10.0.1.1:1", wants("U"))
    (finding,) = world.differing()
    assert any("and 15 more" in member for member in finding.members)


def test_stale_connection_is_not_compared(world: World) -> None:
    world.beat("10.0.0.1:1", wants("Old"))
    world.now_s += 66
    world.beat("10.0.0.1:2", wants("New"))
    assert world.differing() == []


def test_system_groups_are_not_compared(world: World) -> None:
    world.beat("10.0.0.1:1", wants("T"), group="CID_RMQ_SYS_X")
    world.beat("10.0.0.2:1", wants("U"), group="CID_RMQ_SYS_X")
    assert world.differing() == []


# -- ids that two clients have --------------------------------------------------------------------------------------------


def test_shared_client_id_is_a_finding_if_both_clients_stay(world: World) -> None:
    world.beat("10.0.0.1:1", client_id="id")
    world.now_s += 10
    world.beat("10.0.0.2:1", client_id="id")
    assert world.shared() == []  # it may have reconnected
    world.now_s += 20
    world.beat("10.0.0.1:1", client_id="id")
    (finding,) = world.shared()
    assert (finding.kind, finding.about) == ("client id shared", "id")
    assert finding.members == ("id at 10.0.0.1:1", "id at 10.0.0.2:1")


def test_shared_client_id_on_one_machine_is_a_finding(world: World) -> None:
    for _ in range(2):
        world.beat("10.0.0.1:1", client_id="id")
        world.beat("10.0.0.1:2", client_id="id")
        world.now_s += 30
    assert len(world.shared()) == 1


def test_reconnected_client_is_not_a_shared_id(world: World) -> None:
    """Its old connection is still open, half of it, and silent; it may have brought a last sign of life late."""
    world.beat("10.0.0.1:1", client_id="id")
    world.now_s += 15
    world.beat("10.0.0.1:2", client_id="id")
    world.now_s += 1
    world.beat("10.0.0.1:1", client_id="id")
    for _ in range(5):
        assert world.shared() == []
        world.now_s += 30
        world.beat("10.0.0.1:2", client_id="id")
    assert world.shared() == []


def test_repeatedly_reconnecting_client_is_not_a_shared_id(world: World) -> None:
    for port in range(1, 8):
        world.beat(f"10.0.0.1:{port}", client_id="id")
        world.now_s += 10
        world.beat(f"10.0.0.1:{port}", client_id="id")
        world.now_s += 1
        assert world.shared() == []


def test_shared_id_finding_ends_when_one_client_leaves_or_is_silent(world: World) -> None:
    for _ in range(3):
        world.beat("10.0.0.1:1", client_id="id")
        world.beat("10.0.0.2:1", client_id="id")
        world.now_s += 30
    assert len(world.shared()) == 1
    world.beat("10.0.0.2:1", client_id="id")
    world.now_s += 36
    world.beat("10.0.0.2:1", client_id="id")
    assert world.shared() == []
    world.beat("10.0.0.1:1", client_id="id")
    assert len(world.shared()) == 1
    world.leave("10.0.0.1:1")
    assert world.shared() == []


def test_shared_id_finding_remains_while_one_client_reconnects(world: World) -> None:
    for _ in range(3):
        world.beat("10.0.0.1:1", client_id="id")
        world.beat("10.0.0.2:1", client_id="id")
        world.now_s += 10
    world.beat("10.0.0.1:2", client_id="id")
    for _ in range(6):
        assert len(world.shared()) == 1
        world.now_s += 10
        world.beat("10.0.0.1:2", client_id="id")
        world.beat("10.0.0.2:1", client_id="id")
    assert len(world.shared()[0].members) == 2


def test_client_in_two_groups_is_not_a_shared_id(world: World) -> None:
    for _ in range(3):
        world.beat("10.0.0.1:1", client_id="id", group="G")
        world.beat("10.0.0.1:1", client_id="id", group="H")
        world.now_s += 30
    assert world.shared() == []


# -- queues that nobody owns ----------------------------------------------------------------------------------------------


def test_queue_without_pulls_is_a_finding_after_two_rounds(world: World) -> None:
    world.beat("10.0.0.1:1")
    world.now_s += GRACE_S - 1
    world.visits.visited("G", "T", (0, 1, 3))
    assert world.unowned() == []
    world.now_s += 1
    (finding,) = world.unowned()
    assert (finding.group, finding.about, finding.queues) == ("G", "T", (2,))
    assert "queue 2 of T" in finding.what
    world.visits.visited("G", "T", (2,))
    assert world.unowned() == []
    world.now_s += GRACE_S
    assert world.unowned()[0].queues == (0, 1, 2, 3)


def test_queue_with_a_held_pull_is_not_a_finding(world: World) -> None:
    world.read_queues["T"] = 1
    world.beat("10.0.0.1:1")
    world.visits.visited("G", "T", (0,), hold_s=120)
    world.now_s += 120
    assert world.unowned() == []
    world.now_s += GRACE_S
    assert len(world.unowned()) == 1


def test_new_subscription_has_a_grace_period(world: World) -> None:
    world.beat("10.0.0.1:1")
    world.now_s += 200
    world.visits.visited("G", "T", range(4))
    world.read_queues["U"] = 1
    world.beat("10.0.0.1:1", wants("T"), wants("U"))
    assert world.unowned() == []
    world.now_s += GRACE_S
    world.visits.visited("G", "T", range(4))
    assert [finding.about for finding in world.unowned()] == ["U"]


def test_returning_group_has_a_grace_period(world: World) -> None:
    world.beat("10.0.0.1:1")
    world.visits.visited("G", "T", range(4))
    world.leave("10.0.0.1:1")
    world.now_s += 500
    assert world.unowned() == []
    world.beat("10.0.0.1:1")
    world.now_s += GRACE_S - 1
    assert world.unowned() == []


def test_broadcasting_group_needs_no_queue_owners(world: World) -> None:
    world.beat("10.0.0.1:1", model="BROADCASTING")
    world.now_s += 500
    assert world.unowned() == []


def test_pull_consumer_may_pause_but_not_omit_queues(world: World) -> None:
    world.beat("10.0.0.1:1", kind="CONSUME_ACTIVELY")
    world.now_s += 500
    assert world.unowned() == []
    world.visits.visited("G", "T", (0, 1))
    assert world.unowned()[0].queues == (2, 3)


def test_unreadable_topic_needs_no_queue_owners(world: World) -> None:
    world.beat("10.0.0.1:1", wants("Elsewhere"))
    world.now_s += 500
    assert world.unowned() == []


def test_visits_of_deleted_groups_are_removed() -> None:
    visits = QueueVisits(lambda: 0.0)
    visits.visited("G", "T", (0,))
    visits.visited("H", "T", (0,))
    visits.keep_only({"H": None})
    assert (visits.of("G", "T"), visits.of("H", "T")) == ({}, {0: 0.0})


# -- when it is said ------------------------------------------------------------------------------------------------------


class Board:
    """A board, and what it has published."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.found: list[Finding] = []
        self.published: list[Any] = []
        self.board = FindingBoard(lambda: self.found, self.publish, lambda: self.now_s, lambda: 77)

    def publish(self, findings: Sequence[dict[str, Any]]) -> int:
        """Keeps what was published; there is always room."""
        self.published.append(list(findings))
        return 0

    def look(self, seconds: float, *found: Finding) -> None:
        self.found = list(found)
        self.now_s += seconds
        self.board.look()


def finding(what: str = "is odd", about: str = "") -> Finding:
    return Finding("G", "kind", about, what, ("c at 10.0.0.1:1",), (), "mend it")


def test_short_finding_is_not_published(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    board = Board()
    board.look(0, finding())
    board.look(4.9, finding())
    board.look(5)
    assert board.published == [[]]
    assert caplog.messages == []


def test_lasting_finding_is_logged_when_it_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    board = Board()
    for _ in range(10):
        board.look(5, finding())
    assert caplog.messages == [
        "consumer problem found group=G problem='is odd' members='c at 10.0.0.1:1' advice='mend it'"
    ]
    assert board.published == [
        [],
        [{
            "since": 77, "group": "G", "kind": "kind", "about": "", "what": "is odd", "members": ("c at 10.0.0.1:1",), "queues": (),
            "advice": "mend it", "count": 0,
        }],
    ]  # fmt: skip
    board.look(5)
    board.look(5)
    assert caplog.messages[1:] == ["consumer problem resolved group=G problem='is odd'"]
    assert board.published[2:] == [[]]


def test_changed_text_of_a_finding_is_published_but_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    board = Board()
    for _ in range(3):
        board.look(10, finding("queue 1"), finding("other", "U"))
    board.look(10, finding("queues 1, 2"), finding("other", "U"))
    assert len(caplog.messages) == 2
    assert [shown["what"] for shown in board.published[-1]] == ["queues 1, 2", "other"]
