"""Members are remembered for a day, and not without limit."""

import pytest

from web.sampling import past_members
from web.sampling.past_members import KEPT_S, PastMembers
from web.sampling.sample import BrokerSample, Member, Sample


def sample(at: float, *clients: str) -> Sample:
    members = tuple(Member("billing", client, f"{client}:1") for client in clients)
    return Sample(
        at, (BrokerSample("C", "a", 0, "n:1", members=members), BrokerSample("C", "b", 0, "n:2", problem="down"))
    )


def left(past: PastMembers, *connected: str) -> list[str]:
    return [one.client for one in past.left("billing", connected)]


def test_member_that_returns_has_not_left() -> None:
    past = PastMembers()
    past.follow(sample(0.0, "one", "two"), {})
    past.follow(sample(10.0, "one"), {})
    assert left(past, "one") == ["two"]
    assert left(past, "one", "two") == []
    assert past.left("audit", ()) == []


def test_member_is_forgotten_after_a_day() -> None:
    past = PastMembers()
    past.follow(sample(0.0, "one"), {})
    past.follow(sample(KEPT_S, "two"), {})
    assert left(past) == ["one", "two"]
    past.follow(sample(KEPT_S + 1), {})
    assert left(past) == ["two"]


def test_of_too_many_members_those_that_left_first_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_members, "_MOST", 3)
    past = PastMembers()
    past.follow(sample(0.0, "one", "two"), {})
    past.follow(sample(10.0, "one", "three", "four"), {})
    assert left(past) == ["one", "three", "four"]


def test_queues_of_a_member_are_kept_while_it_is_connected() -> None:
    past = PastMembers()
    past.note_queues("billing", {"one": ["Orders a 0"]})
    past.follow(sample(0.0, "one"), {})
    assert [one.queues for one in past.left("billing", ())] == [()]
    past.note_queues("billing", {"one": [f"Orders a {number}" for number in range(60)]})
    past.follow(sample(10.0, "one"), {})
    [one] = past.left("billing", ())
    assert (len(one.queues), one.queues[0], one.seen_s) == (50, "Orders a 0", 10.0)
