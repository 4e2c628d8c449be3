"""Locks of queues, by which orderly consumers own them."""

from broker.clients.rebalance_locks import RebalanceLocks
from headrace.model.message_queue import MessageQueue

A, B = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


class Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def test_queue_is_locked_by_the_first_client() -> None:
    locks = RebalanceLocks(Clock())
    assert locks.lock("G", "one", [A]) == [A]
    assert locks.lock("G", "two", [B, A]) == [B]
    assert locks.lock("H", "two", [A]) == [A]
    assert locks.owners("G") == {A: "one", B: "two"}


def test_only_its_owner_unlocks_a_queue() -> None:
    locks = RebalanceLocks(Clock())
    locks.lock("G", "one", [A, B])
    locks.unlock("G", "two", [A])
    assert locks.lock("G", "two", [A]) == []
    locks.unlock("G", "one", [A])
    assert locks.lock("G", "two", [A, B]) == [A]


def test_lock_expires_a_minute_after_its_last_renewal() -> None:
    clock = Clock()
    locks = RebalanceLocks(clock)
    locks.lock("G", "one", [A])
    clock.now_ms += 60_000
    assert locks.lock("G", "two", [A]) == []
    clock.now_ms += 1
    assert locks.lock("G", "two", [A]) == [A]
    assert locks.lock("G", "one", [A]) == []


def test_locking_again_renews_the_lock() -> None:
    clock = Clock()
    locks = RebalanceLocks(clock)
    for _ in range(3):
        assert locks.lock("G", "one", [A]) == [A]
        clock.now_ms += 40_000
    assert locks.lock("G", "two", [A]) == []


def test_groups_without_locks_leave_nothing_behind() -> None:
    locks = RebalanceLocks(Clock())
    locks.lock("G", "one", [])
    locks.lock("H", "one", [A])
    locks.unlock("H", "one", [A])
    locks.unlock("unknown", "one", [A])
    assert locks._locks == {}
