"""Order is kept while the broker is restarted, and when a consumer dies while it holds queue locks.

Full form only (HEADRACE_CRASH_ROUNDS=full): a client waits half a minute for the answer of a dead broker, and a broker
keeps the locks of a dead client for a minute.
"""

import os
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from support.client import Client, Message, place
from support.java import IMPATIENT, QUICK_START, Java, JavaError
from support.quick_servers import SERVERS
from support.sdk import await_registered
from support.servers import wait_until

FULL = os.environ.get("HEADRACE_CRASH_ROUNDS") == "full"
QUEUES = 3
PATIENCE_S = 120

pytestmark = pytest.mark.timeout(400)


class Sending:
    """Sends one message after the other, each until it is acknowledged."""

    def __init__(self, client: Client, topic: str) -> None:
        self.acknowledged = 0
        self._client = client
        self._topic = topic
        self._more = threading.Condition()
        self._ends = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ends:
            try:
                self._client.send(self._topic, 1, first=self.acknowledged, mode="selector", timeoutMs=3000)
            except JavaError:
                time.sleep(0.05)  # it may or may not be stored
                continue
            with self._more:
                self.acknowledged += 1
                self._more.notify_all()

    def wait_for_more(self, count: int) -> None:
        with self._more:
            goal = self.acknowledged + count
            assert self._more.wait_for(lambda: self.acknowledged >= goal, PATIENCE_S), f"{self.acknowledged} of {goal}"

    def __enter__(self) -> "Sending":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._thread.join()


def assert_in_order(received: list[Message]) -> None:
    """Checks that no message of a queue is received before its predecessor. Messages may be redelivered."""
    next_offset: dict[int, int] = defaultdict(int)
    for queue, offset in map(place, received):
        assert offset <= next_offset[queue], f"queue {queue} goes on with {offset}, {next_offset[queue]} has not come"
        next_offset[queue] = max(next_offset[queue], offset + 1)


if FULL:

    @pytest.mark.parametrize("make", SERVERS)
    def test_order_is_kept_across_a_broker_restart(impatient_java: Java, tmp_path: Path, make: str) -> None:
        topic, consumer = f"OrderStays-{make}", f"order-stays-{make}"
        server = SERVERS[make](tmp_path / "data")
        try:
            await_registered(server.name_server)
            client = Client(impatient_java, server)
            client.create_topic(topic, QUEUES)
            # A restarted broker knows no consumer before its next heartbeat.
            client.consume(consumer, topic, kind="orderly", heartbeatMs=500)
            with Sending(client, topic) as sending:
                sending.wait_for_more(50)
                server.stop()
                server = SERVERS[make](tmp_path / "data", ports=server.ports)
                sending.wait_for_more(50)
            await_registered(server.name_server)
            client.await_pullable(topic, sending.acknowledged, PATIENCE_S)
            stored = len(client.dump(topic))
            received = client.receive(consumer, stored, PATIENCE_S)
            client.stop(consumer)
        finally:
            server.stop()
        assert_in_order(received)
        assert len(set(map(place, received))) == stored

    @pytest.mark.parametrize("make", SERVERS)
    def test_order_is_kept_when_a_consumer_dies_holding_queue_locks(java: Java, tmp_path: Path, make: str) -> None:
        topic, group = f"OrderDies-{make}", f"order-dies-{make}"
        flags = (*QUICK_START, *IMPATIENT)
        with (
            SERVERS[make](tmp_path / "data") as server,
            Java(tmp_path / "dies", heap="256m", flags=flags) as dying,
            Java(tmp_path / "stays", heap="256m", flags=flags) as staying,
        ):
            await_registered(server.name_server)
            client, first, second = (Client(one, server) for one in (java, dying, staying))
            client.create_topic(topic, QUEUES)
            first.consume("dies", topic, kind="orderly", group=group)
            first.await_assigned("dies", QUEUES, PATIENCE_S)
            with Sending(client, topic) as sending:
                sending.wait_for_more(30)
            before = first.receive("dies", sending.acknowledged, PATIENCE_S)
            second.consume("stays", topic, kind="orderly", group=group)
            dying.kill()
            with Sending(client, topic) as more:
                more.wait_for_more(30)
            count = sending.acknowledged + more.acknowledged
            client.await_pullable(topic, count, PATIENCE_S)
            second.receive("stays", more.acknowledged, PATIENCE_S)
            wait_until(
                lambda: len({*map(place, before), *map(place, second.received("stays"))}) >= count, PATIENCE_S, "all"
            )
            after = second.received("stays")
            second.stop("stays")
        assert_in_order([*before, *after])
