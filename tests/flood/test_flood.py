"""Floods: 10,000 connections, 100,000 sends in flight, slow readers and slow writers, all at once with 100 synchronous producers;
a connection with 10,000 sends in flight; and a client that connects or begins TLS handshakes without end.

The producers are a client each: they have addresses of their own (127.1.0.1 and so on), as on 100 machines. The flood is one client with
9,800 connections and ten sends in flight on each; it sends the next as soon as one is answered. Another client has 100 connections
that ask for long answers and read nothing, and 100 that send a frame byte by byte.

The producers send without a pause, so that the broker is busy and their latency is its work for all of them. The appliance has a core of its
own, as it would if the flood came from other machines: on shared cores the kernel lets dispatch wait behind the broker while the flood keeps the
other core from being idle, and the producers' p99 is 1.6 times as long although the flood connects to another server. The producers use two thirds of
the other core, so they are not what is measured; the flood's processes run only while that core is idle, and always have enough in flight. What
the machine does beside makes every figure uncertain, so measurements with the flood and while it is stopped take turns, and the medians are
compared. Each measurement begins with 100 producers that connect, several times.
"""

import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from support import load
from support.appliance import Appliance
from support.servers import wait_until

pytestmark = pytest.mark.slow

MIB = 1 << 20
CONNECTIONS = 9_800
IN_FLIGHT = 10
STALLED = 100
CHURN = 200
PRODUCERS = 100
ROUNDS = 3
MOST_ROUNDS = 9  # if the machine does too much beside for three to tell
LATENCY = 2.0
# The first answers of 100 producers that connect at once take four turns of the broker's loop. With a flood 1.1 to 2.1 times as long are usual. If one
# connection were accepted in each turn it would be 8 with 9,800 connections that send, and 20 with handshakes; it hardly matters beside a client that
# only connects, where up to 2.5 is usual on a busy machine, because its connections are accepted and closed in the same turns.
FIRST_ANSWER = 2.5
FIRST_ANSWER_AMONG_CONNECTS = 3.0
# ms. A turn of the loop is longer by the slice of a connection, and by what one read brings beyond it; 10,000 sends take 9 ms.
LONGER_TURN = 3.0
SECONDS = 2.0
IDLE_PERCENT = 20.0  # of a core
BUFFER_MIB = 128
SETTINGS = {
    "mappedFileSizeCommitLog": str(256 * MIB), "maxHashSlotNum": "100000", "maxIndexNum": "400000",
    "maxConnectionBufferBytes": str(BUFFER_MIB * MIB),
    # So that only the division of the time protects the producers.
    "maxNewConnectionsPerMinute": "100000000", "maxTlsHandshakesPerMinute": "100000000",
}  # fmt: skip


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard * 3 // 4 * 3 // 4 < CONNECTIONS:
        pytest.fail(f"the open file limit is {hard}; the flood needs 18,000 (ulimit -n)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cores = os.sched_getaffinity(0)
    first = {min(cores)}
    try:
        # Processes inherit the cores of who starts them.
        os.sched_setaffinity(0, first)
        with Appliance(tmp_path / "data", settings=SETTINGS) as started:
            os.sched_setaffinity(0, cores - first or first)
            yield started
    finally:
        os.sched_setaffinity(0, cores)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def produce(port: int, seconds: float = SECONDS) -> dict[str, Any]:
    """What 100 synchronous producers see."""
    process = load.start("producers", port, PRODUCERS, seconds)
    out, _ = process.communicate(timeout=60)
    seen: dict[str, Any] = json.loads(out)
    return seen


def own_memory(process: psutil.Process) -> int:
    """Bytes of a process's memory that are not pages of files."""
    memory = process.memory_info()
    return int(memory.rss - memory.shared)


def counters_of_broker(appliance: Appliance) -> dict[str, Any]:
    """The counters of the broker."""
    counters: dict[str, Any] = appliance.status()["counters"]["broker"]
    return counters


def exceeded(
    calm: list[dict[str, Any]], flooded: list[dict[str, Any]], first_answer: float = FIRST_ANSWER
) -> list[str]:
    """The bounds that the measurements exceed."""
    found = []
    for what, key, most in ("p99", "p99", LATENCY), ("half of the first answers", "first_p50", first_answer):
        before, with_flood = (statistics.median(each[key] for each in seen) for seen in (calm, flooded))
        if with_flood > most * before:
            found.append(f"{what}: {with_flood:.1f} ms, {before:.1f} ms without the flood")
    return found


def added_ms(calm: list[dict[str, Any]], flooded: list[dict[str, Any]]) -> float:
    """How much longer than without the flood half of the sends take."""
    p50_calm, p50_flooded = (statistics.median(each["p50"] for each in seen) for seen in (calm, flooded))
    return float(p50_flooded - p50_calm)


def measure(
    appliance: Appliance,
    floods: list["subprocess.Popen[str]"],
    watch: Callable[[], None],
    exceeds: Callable[[list[dict[str, Any]], list[dict[str, Any]]], object] = exceeded,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What producers see while the floods are stopped, and while they run. `watch` is called after each measurement with them.

    There are more rounds while `exceeds` is true of what was seen.
    """
    broker = psutil.Process(appliance.pid_of("broker"))
    calm: list[dict[str, Any]] = []
    flooded: list[dict[str, Any]] = []
    while len(calm) < ROUNDS or (exceeds(calm, flooded) and len(calm) < MOST_ROUNDS):
        flooded.append(produce(appliance.ports[1]))
        watch()
        for flood in floods:
            flood.send_signal(signal.SIGSTOP)
        wait_until(lambda: broker.cpu_percent(0.2) < IDLE_PERCENT, 30, "what the flood has sent before is answered")
        calm.append(produce(appliance.ports[1]))
        for flood in floods:
            flood.send_signal(signal.SIGCONT)
    assert [each["failed"] for each in (*calm, *flooded)] == [0] * 2 * len(calm)
    return calm, flooded


@pytest.mark.parametrize(
    ("kind", "first_answer"), [("connects", FIRST_ANSWER_AMONG_CONNECTS), ("handshakes", FIRST_ANSWER)]
)
def test_client_that_connects_without_end_delays_neither_connected_nor_new_producers(
    appliance: Appliance, kind: str, first_answer: float
) -> None:
    port, exceeds = appliance.ports[1], partial(exceeded, first_answer=first_answer)
    produce(port)  # creates the topic, and warms up
    before = counters_of_broker(appliance)
    with contextlib.ExitStack() as stack:
        flood = load.start(kind, port, CHURN)
        stack.callback(load.stop, flood)
        load.expect(flood, "connected")
        load.begin(flood)
        load.expect(flood, "sent")
        calm, flooded = measure(appliance, [flood], lambda: None, exceeds)
        status = appliance.status()
    after = status["counters"]["broker"]
    assert after["turn_waits"] > before["turn_waits"], "the flood never had to wait, so nothing was measured"
    if kind == "handshakes":
        # Each is broken off after the server's answer.
        assert after["tls_failures"] > before["tls_failures"] + CHURN, (
            "there were no handshakes, so nothing was measured"
        )
    assert exceeds(calm, flooded) == []
    assert {name: role["restarts"] for name, role in status["roles"].items() if role["restarts"]} == {}


def test_connection_with_ten_thousand_sends_in_flight_delays_producers_by_a_slice(appliance: Appliance) -> None:
    port = appliance.ports[1]
    produce(port)  # creates the topic, and warms up
    with contextlib.ExitStack() as stack:
        flood = load.start("flood", port, 1, 10_000)
        stack.callback(load.stop, flood)
        load.expect(flood, "connected")
        load.begin(flood)
        load.expect(flood, "sent")
        waits = counters_of_broker(appliance)["turn_waits"]
        calm, flooded = measure(
            appliance, [flood], lambda: None, lambda calm, flooded: added_ms(calm, flooded) > LONGER_TURN
        )
        assert counters_of_broker(appliance)["turn_waits"] > waits, "it never had to wait, so nothing was measured"
    assert added_ms(calm, flooded) <= LONGER_TURN


def test_flood_of_one_client_delays_neither_connected_nor_new_producers(appliance: Appliance) -> None:
    port = appliance.ports[1]
    produce(port)  # creates the topic, and warms up
    broker = psutil.Process(appliance.pid_of("broker"))
    before, waits = own_memory(broker), counters_of_broker(appliance)["turn_waits"]
    with contextlib.ExitStack() as stack:
        floods = [load.start("flood", port, CONNECTIONS, IN_FLIGHT), load.start("stall", port, STALLED)]
        for flood in floods:
            stack.callback(load.stop, flood)
            load.expect(flood, "connected")
        wait_until(
            lambda: counters_of_broker(appliance)["connections"] >= CONNECTIONS + 2 * STALLED, 60, "all accepted"
        )
        for flood in floods:
            load.begin(flood)
            load.expect(flood, "sent")
        used: list[int] = []
        calm, flooded = measure(appliance, floods, lambda: used.append(own_memory(broker)))
        status = appliance.status()
    assert status["counters"]["broker"]["turn_waits"] > waits, "the flood never had to wait, so nothing was measured"
    assert exceeded(calm, flooded) == []
    # What the connections themselves take, some 15 KB each, is not of the budget.
    assert (max(used) - before) / MIB < BUFFER_MIB + (CONNECTIONS + 2 * STALLED) * 0.015
    assert {name: role["restarts"] for name, role in status["roles"].items() if role["restarts"]} == {}
    lines = (appliance.data / "logs" / "headrace.log").read_text().splitlines()
    assert len(lines) < 300
    assert not [line for line in lines if " error " in line]
