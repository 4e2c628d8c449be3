"""Delayed, timed, transactional and retried messages survive repeated kills of the broker.

No acknowledged message is lost, none is delivered before it is due, and no rolled-back message is delivered. Delayed
and timed messages are delivered exactly once; transactional and retried ones may be duplicated, as in RocketMQ.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.appliance import Appliance
from support.client import Client, Message
from support.crash import SETTINGS as SMALL
from support.crash import records, rounds, verify
from support.java import Java, JavaError
from support.quick_servers import SETTINGS as QUICK
from support.quick_servers import create_group
from support.servers import wait_until

KILLS = rounds(short=2, full=50)
SETTINGS = SMALL | QUICK
QUEUES = 2
PATIENCE_S = 120
"""What a machine that does other things may take; that messages are on time, others test."""
LOOK_S = 0.25
TIMEOUT_MS = 3000
"""How long a client waits for the answer of a broker that may be dead: it does not notice."""

pytestmark = pytest.mark.timeout(3 * PATIENCE_S + 20 * KILLS)


class Sending:
    """Sends one message after the other until it is stopped. `sent` holds the acknowledged ones by key."""

    def __init__(self, client: Client, send: Callable[[int], list[Message]]) -> None:
        self.client = client
        self.sent: dict[str, Message] = {}
        self._send = send
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._ends.is_set():
            try:
                for one in self._send(number):
                    if one["status"] == "SEND_OK":
                        self.sent[one["keys"].split()[0]] = one
            except JavaError:
                pass  # it may or may not be stored
            number += 1
            self._ends.wait(0.002)

    @contextmanager
    def going(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ends.set()
            self._thread.join()


def kill_again_and_again(appliance: Appliance, sending: Sending, chance: random.Random) -> None:
    with sending.going():
        for _ in range(KILLS):
            goal = len(sending.sent) + chance.randrange(20, 120)
            wait_until(lambda goal=goal: len(sending.sent) >= goal, PATIENCE_S, "more messages")  # type: ignore[misc]
            pid = appliance.pid_of("broker")
            os.kill(pid, signal.SIGKILL)
            appliance.wait_restarted("broker", pid)
        goal = len(sending.sent) + 20
        wait_until(lambda: len(sending.sent) >= goal, PATIENCE_S, "more messages")


def seldom(condition: Callable[[], bool]) -> Callable[[], bool]:
    """Checks a condition only four times a second: reading a whole log takes CPU time from the processes under test."""
    looked_at = -LOOK_S

    def is_so() -> bool:
        nonlocal looked_at
        if time.monotonic() < looked_at + LOOK_S:
            return False
        is_true = condition()
        looked_at = time.monotonic()
        return is_true

    return is_so


def in_log(store: Path, topic: str) -> Counter[str]:
    """How often each key occurs in a topic."""
    return Counter(record["properties"]["KEYS"].split()[0] for record in records(store, topic))


def wait_for(appliance: Appliance, topic: str, keys: set[str]) -> Counter[str]:
    """Waits until all these keys are in a topic, and returns how often each occurs. A timeout names those missing."""
    missing = set(keys)

    def all_there() -> bool:
        missing.difference_update(in_log(appliance.store, topic))
        return not missing

    try:
        wait_until(seldom(all_there), PATIENCE_S, f"{len(keys)} messages in {topic}")
    except AssertionError as error:
        message = f"{error}; {len(missing)} are missing: {sorted(missing)[:5]}"
        raise AssertionError(message) from None
    return in_log(appliance.store, topic)


def test_delayed_messages_are_delivered_exactly_once_across_broker_kills(
    java: Java, tmp_path: Path, chance: random.Random
) -> None:
    topic = "KilledDelays"
    with Appliance(tmp_path / "data", settings=SETTINGS) as appliance:
        client = Client(java, appliance)
        client.create_topic(topic, QUEUES)
        sending = Sending(
            client,
            lambda number: client.call(
                "send-with", topic=topic, first=number, count=1, set={"DELAY": "1"}, timeoutMs=TIMEOUT_MS
            ),
        )
        # From here on the log shows what a broker has delivered.
        wait_until((appliance.store / "timer" / "levels").exists, PATIENCE_S, "the first progress of the levels")
        kill_again_and_again(appliance, sending, chance)
        wait_for(appliance, topic, set(sending.sent))
        waited = wait_for(appliance, "SCHEDULE_TOPIC_XXXX", set(sending.sent))
        wait_until(
            seldom(lambda: in_log(appliance.store, topic).total() >= waited.total()),
            PATIENCE_S,
            f"{waited.total()} deliveries",
        )
    for record in records(appliance.store, topic):
        assert record["storeTimestamp"] - record["bornTimestamp"] >= 1000
    assert in_log(appliance.store, topic) == waited  # exactly once, except what the client sent twice
    verify(appliance.store)


def test_timer_messages_are_delivered_exactly_once_across_broker_kills(
    java: Java, tmp_path: Path, chance: random.Random
) -> None:
    topic = "KilledTimers"
    with Appliance(tmp_path / "data", settings=SETTINGS) as appliance:
        client = Client(java, appliance)
        client.create_topic(topic, QUEUES)

        def send(number: int) -> list[Message]:
            delay_ms = str(chance.randrange(1, 3000))
            said: list[Message] = client.call(
                "send-with", topic=topic, first=number, count=1, set={"TIMER_DELAY_MS": delay_ms}, timeoutMs=TIMEOUT_MS
            )
            return said

        sending = Sending(client, send)
        kill_again_and_again(appliance, sending, chance)
        wait_for(appliance, topic, set(sending.sent))
        # Messages that were stored but not acknowledged are delivered too.
        wait_until(
            seldom(lambda: come(appliance.store, topic) >= waiting(appliance.store)), PATIENCE_S, "all deliveries"
        )
    waited = Counter(r["offset"] for r in records(appliance.store, "rmq_sys_wheel_timer"))
    delivered = Counter(
        int(r["properties"]["TIMER_PHYSICAL_OFFSET"])
        for r in records(appliance.store, topic)
        if "TIMER_OUT_MS" in r["properties"]
    )
    assert delivered == waited  # exactly once, except what the client sent twice
    for record in records(appliance.store, topic):
        if "TIMER_OUT_MS" in record["properties"]:
            assert record["storeTimestamp"] >= int(record["properties"]["TIMER_OUT_MS"])
    verify(appliance.store)


def waiting(store: Path) -> int:
    """How many timed messages have been accepted so far."""
    return sum(1 for _ in records(store, "rmq_sys_wheel_timer"))


def come(store: Path, topic: str) -> int:
    """How many of them have been delivered to a topic."""
    return sum("TIMER_OUT_MS" in record["properties"] for record in records(store, topic))


@pytest.mark.parametrize("outcome", ["commit", "unknown"])
def test_transactions_complete_across_broker_kills(
    java: Java, tmp_path: Path, chance: random.Random, outcome: str
) -> None:
    topic, group = "KilledTransactions", f"killed-{outcome}"
    with Appliance(tmp_path / "data", settings=SETTINGS | {"transactionCheckMax": "1000"}) as appliance:
        client = Client(java, appliance)
        client.create_topic(topic, QUEUES)

        def send(number: int) -> list[Message]:
            # One in three is rolled back, at once or when the broker checks the transaction.
            end = "rollback" if number % 3 == 0 else "commit"
            said: list[Message] = client.call(
                "transact",
                group=group,
                topic=topic,
                first=number,
                count=1,
                outcome=end if outcome == "commit" else outcome,
                checked=end,
            )
            return said

        sending = Sending(client, send)
        kill_again_and_again(appliance, sending, chance)
        committed = {key for key in sending.sent if int(key.removeprefix("key-")) % 3}
        there = wait_for(appliance, topic, committed)
        client.call("stop-transactions", group=group)
    rolled_back = {key for key in there if int(key.removeprefix("key-")) % 3 == 0}
    assert not rolled_back
    verify(appliance.store)


def test_retries_continue_across_broker_kills(java: Java, tmp_path: Path, chance: random.Random) -> None:
    topic, group = "KilledRetries", "killed-retries"
    with Appliance(tmp_path / "data", settings=SETTINGS) as appliance:
        client = Client(java, appliance)
        client.create_topic(topic, QUEUES)
        create_group(client, group, topic)
        client.call("attempt", consumer=group, group=group, topic=topic, failures=1)

        def send(number: int) -> list[Message]:
            said: list[Message] = client.call("send-with", topic=topic, first=number, count=1, timeoutMs=TIMEOUT_MS)
            return said

        sending = Sending(client, send)
        kill_again_and_again(appliance, sending, chance)

        def tried_again() -> set[str]:
            made = client.call("attempts", consumer=group)
            return {one["keys"].split()[0] for one in made if one["reconsumeTimes"] >= 1}

        wait_until(
            seldom(lambda: sending.sent.keys() <= tried_again()),
            PATIENCE_S,
            f"another attempt at each of {len(sending.sent)} messages",
        )
        client.call("stop-attempts", consumer=group)
    verify(appliance.store)
