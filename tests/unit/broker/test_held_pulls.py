"""Pulls that wait for a message."""

from broker.pulling.held_pulls import HeldPull, HeldPulls


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


def test_only_pulls_of_queues_with_new_messages_are_tried() -> None:
    held, mine, other = HeldPulls(), Waiting(), Waiting()
    held.hold(mine.held(("T", 0)))
    held.hold(other.held(("T", 1)))
    mine.has_message = True
    held.arrived([("T", 0), ("U", 0)])
    assert mine.tries == [False]
    assert other.tries == []
    assert held.size == 1
    assert held.queues() == [("T", 1)]


def test_pull_that_cannot_be_answered_stays_held() -> None:
    held, mine = HeldPulls(), Waiting()
    held.hold(mine.held())
    held.arrived([("T", 0)])
    held.arrived([("T", 0)])
    assert mine.tries == [False, False]
    assert held.size == 1


def test_pull_is_answered_exactly_once_at_its_deadline() -> None:
    held, mine, later = HeldPulls(), Waiting(), Waiting()
    held.hold(mine.held(deadline=10.0))
    held.hold(later.held(deadline=20.0))
    held.expire(10.0)
    assert mine.tries == [True]
    assert later.tries == []
    assert held.size == 1
    assert held.next_deadline() == 20.0
    held.expire(10.0)
    assert mine.tries == [True]


def test_answered_pull_is_not_tried_at_its_deadline() -> None:
    held, mine = HeldPulls(), Waiting()
    held.hold(mine.held())
    mine.has_message = True
    held.arrived([("T", 0)])
    held.expire(11.0)
    assert mine.tries == [False]
    assert held.size == 0
    assert held.queues() == []
    assert held.next_deadline() is None


def test_first_held_pull_requests_a_bell() -> None:
    begun: list[int] = []
    held = HeldPulls(lambda: begun.append(held.size))
    held.hold(Waiting().held())
    held.hold(Waiting().held())
    assert begun == [1, 2]


def test_answered_pull_is_released_before_its_deadline() -> None:
    held, mine = HeldPulls(), Waiting()
    mine.has_message = True
    for number in range(1000):
        held.hold(mine.held(deadline=100.0 + number / 1000))
        held.arrived([("T", 0)])
    assert held.size == 0
    assert sum(len(pulls) for pulls in held._by_tick.values()) == 0
    assert len(held._by_tick) <= 11


def test_deadlines_within_a_tenth_of_a_second_are_met_together_but_never_early() -> None:
    held, first, second = HeldPulls(), Waiting(), Waiting()
    held.hold(first.held(deadline=10.01))
    held.hold(second.held(deadline=10.09))
    held.expire(10.0)
    assert first.tries == []
    assert held.next_deadline() == 10.1
    held.expire(10.1)
    assert first.tries == second.tries == [True]
    assert held.next_deadline() is None
