"""Pulls that wait for a message."""

from broker.held_pulls import HeldPull, HeldPulls


class Waiting:
    """A pull that can be answered once `has_message`; remembers how it was tried."""

    def __init__(self) -> None:
        self.has_message = False
        self.tries: list[bool] = []

    def __call__(self, last: bool) -> bool:
        self.tries.append(last)
        return self.has_message

    def held(self, queue: tuple[str, int] = ("T", 0), deadline: float = 10.0) -> HeldPull:
        return HeldPull(queue, deadline, self)


def test_only_pulls_of_queues_that_have_grown_are_tried() -> None:
    held, mine, other = HeldPulls(), Waiting(), Waiting()
    held.hold(mine.held(("T", 0)))
    held.hold(other.held(("T", 1)))
    mine.has_message = True
    held.arrived([("T", 0), ("U", 0)])
    assert mine.tries == [False] and other.tries == []
    assert len(held) == 1 and held.queues() == [("T", 1)]


def test_a_pull_that_cannot_be_answered_goes_on_waiting() -> None:
    held, mine = HeldPulls(), Waiting()
    held.hold(mine.held())
    held.arrived([("T", 0)])
    held.arrived([("T", 0)])
    assert mine.tries == [False, False] and len(held) == 1


def test_at_its_deadline_a_pull_is_answered_in_any_case_and_only_once() -> None:
    held, mine, later = HeldPulls(), Waiting(), Waiting()
    held.hold(mine.held(deadline=10.0))
    held.hold(later.held(deadline=20.0))
    held.expire(10.0)
    assert mine.tries == [True] and later.tries == []
    assert len(held) == 1 and held.next_deadline() == 20.0
    held.expire(10.0)
    assert mine.tries == [True]


def test_an_answered_pull_is_not_tried_at_its_deadline() -> None:
    held, mine = HeldPulls(), Waiting()
    held.hold(mine.held())
    mine.has_message = True
    held.arrived([("T", 0)])
    held.expire(11.0)
    assert mine.tries == [False]
    assert len(held) == 0 and held.queues() == [] and held.next_deadline() is None
