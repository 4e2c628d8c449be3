"""Java and Python consumers in one group share the queues, with no message lost or duplicated."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.client import Client, place
from support.consuming import await_consumed, create_topic, send
from support.consuming_member import PythonMember
from support.java import QUICK_START, Java
from support.servers import Server, wait_until

QUEUES = 8
Place = tuple[int, int]


@pytest.fixture
def own_java(tmp_path: Path) -> Iterator[Java]:
    """A JVM that a test may kill."""
    # It tries to lock queues held by others every half second instead of every 20 s.
    flags = (*QUICK_START, "-Drocketmq.client.rebalance.waitInterval=500")
    java = Java(tmp_path / "java", heap="256m", flags=flags)
    yield java
    java.close()


class Group:
    """The members of a group, Java and Python, and all messages that they received."""

    def __init__(self, client: Client, topic: str, folder: Path, *, orderly: bool) -> None:
        self.client = client
        self.topic = topic
        self.orderly = orderly
        self._folder = folder
        self._numbers = itertools.count(1)
        self.java: list[str] = []
        self.python: list[PythonMember] = []
        self._gone: list[Callable[[], list[Place]]] = []

    def join_java(self) -> None:
        name = f"{self.topic}-java-{next(self._numbers)}"
        kind = "orderly" if self.orderly else "concurrent"
        self.client.consume(name, self.topic, kind=kind, group=self.topic)
        self.java.append(name)

    def join_python(self) -> PythonMember:
        record = self._folder / f"{next(self._numbers)}.txt"
        member = PythonMember(self.client.server, self.topic, self.topic, record, orderly=self.orderly)
        self.python.append(member)
        return member

    def leave_java(self) -> None:
        name = self.java.pop()
        self.client.stop(name)
        places = self._java_places(name)
        self._gone.append(lambda: places)

    def leave_python(self, *, killed: bool) -> None:
        member = self.python.pop(0)
        member.kill() if killed else member.stop()
        self._gone.append(member.places)

    def java_dies(self) -> None:
        """Kills the JVM with all its consumers, after fetching what they received."""
        for name in self.java:
            places = self._java_places(name)
            self._gone.append(lambda places=places: places)  # type: ignore[misc]
        self.java.clear()
        self.client.java.kill()

    def _java_places(self, name: str) -> list[Place]:
        return [place(message) for message in self.client.received(name)]

    def shares(self) -> list[list[int]]:
        """The queues of each member."""
        of_java = [self.client.call("assigned", consumer=name) for name in self.java]
        return [*of_java, *(member.assigned() for member in self.python)]

    def await_shared(self, deadline_s: float = 90) -> None:
        """Waits until each queue has one owner and member shares differ by at most one queue."""

        def is_shared() -> bool:
            shares = self.shares()
            sizes = [len(share) for share in shares]
            return sorted(itertools.chain(*shares)) == list(range(QUEUES)) and max(sizes) - min(sizes) <= 1

        try:
            wait_until(is_shared, deadline_s, "queues shared out")
        except AssertionError:
            message = f"not shared out within {deadline_s:g} s: {self.shares()}"
            raise AssertionError(message) from None

    def places(self) -> list[Place]:
        """Everything that all members have received, including former members."""
        found = [one for name in self.java for one in self._java_places(name)]
        found += [one for member in self.python for one in member.places()]
        return found + [one for places in self._gone for one in places()]

    def await_places(self, count: int) -> Counter[Place]:
        """Waits until this many distinct messages have been received."""
        last: list[Place] = []

        def are_there() -> bool:
            last[:] = self.places()
            return len(set(last)) >= count

        try:
            wait_until(are_there, 90, f"{count} messages")
        except AssertionError:
            message = f"{count - len(set(last))} of {count} messages were given to nobody; shares {self.shares()}"
            raise AssertionError(message) from None
        return Counter(last)

    def close(self) -> None:
        while self.java:
            self.leave_java()
        while self.python:
            self.leave_python(killed=False)


def _send_slowly(server: Server, topic: str, count: int, first: int, during: Callable[[], None]) -> None:
    """Sends about 400 messages a second while the group changes; continues until `count` are sent."""

    async def sending() -> None:
        happening = asyncio.create_task(asyncio.to_thread(during))
        for at in range(0, count, 40):
            begun = time.monotonic()
            await send(server, topic, 40, first=first + at, at_once=8)
            await asyncio.sleep(max(0.0, 0.1 - (time.monotonic() - begun)))
        await happening

    asyncio.run(sending())


def _new_doubles(before: Counter[Place], after: Counter[Place]) -> dict[Place, int]:
    """Messages received more than once that were not duplicates before."""
    return {one: times for one, times in after.items() if times > 1 and times > before[one]}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_java_and_python_members_share_a_group(server: Server, own_java: Java, tmp_path: Path, orderly: bool) -> None:
    topic = f"Mixed-{'orderly' if orderly else 'concurrent'}"
    asyncio.run(create_topic(server, topic, QUEUES))
    group = Group(Client(own_java, server), topic, tmp_path, orderly=orderly)
    sent = 0
    nothing: Counter[Place] = Counter()
    try:
        # Two Java and three Python members; no membership changes: each message once.
        for _ in range(2):
            group.join_java()
        for _ in range(3):
            group.join_python()
        group.await_shared()
        asyncio.run(send(server, topic, 400, at_once=16))
        sent += 400
        given = group.await_places(sent)
        assert not _new_doubles(nothing, given)
        assert all(member.places() for member in group.python)
        assert all(group.client.received(name) for name in group.java)

        # Members join, leave and are killed under load: no message is lost, and none that was committed is redelivered.
        asyncio.run(await_consumed(server, topic, topic))

        def trouble() -> None:
            group.leave_python(killed=not orderly)  # a broker keeps a dead client's locks for a minute
            group.join_python()
            group.leave_java()
            group.leave_python(killed=False)
            group.join_java()
            group.await_shared()

        _send_slowly(server, topic, 2000, sent, trouble)
        sent += 2000
        group.await_places(sent)
        # Once everything is committed, there are no further redeliveries.
        asyncio.run(await_consumed(server, topic, topic))
        shaken = group.await_places(sent)
        doubles = _new_doubles(given, shaken)
        assert not doubles.keys() & given.keys()
        # With locks, a queue is handed over with its offset: at most what was in flight is redelivered. Without them,
        # whoever gets a queue may read its offset before the last owner commits, which Java does every 5 s.
        assert not orderly or len(doubles) < 20, f"{len(doubles)} of 2000 messages were delivered more than once"
        # Stable again: each message once.
        group.await_shared()
        asyncio.run(send(server, topic, 400, first=sent, at_once=16))
        sent += 400
        quiet = group.await_places(sent)
        assert not _new_doubles(shaken, quiet)

        if orderly:
            return
        # The JVM dies: the Python members take over everything.
        group.client.await_committed(
            topic, topic, sent, *group.java
        )  # uncommitted messages are redelivered, as they should be
        group.java_dies()
        group.await_shared()
        asyncio.run(send(server, topic, 200, first=sent, at_once=16))
        sent += 200
        last = group.await_places(sent)
        assert not _new_doubles(quiet, last)
    finally:
        group.close()
