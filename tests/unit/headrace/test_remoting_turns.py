"""The loop's time is divided among clients: one that floods the server delays others by milliseconds."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager

import pytest

from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand, create_request, response_to
from headrace.remoting import Connection, HandlerTable, RemotingServer, client_usage
from headrace.remoting import turns as remoting_turns
from headrace.remoting.client_usage import ClientUsage, ClientUsages, name_of_account, name_of_address
from headrace.remoting.slices import in_slices
from headrace.remoting.turns import LOOP_NS, SLICE_NS, TURN_NS, Turns
from support.loops import until

WORK = 1001
WORK_S = 0.0002
"""CPU time, so that other work on the machine does not count."""


class Waiter:
    """Works for a while in each turn; `left` is how many turns it needs."""

    def __init__(self, turns: Turns, name: str, left: int, order: list[str]) -> None:
        self.turns, self.name, self.left, self.order = turns, name, left, order
        self.usage = ClientUsages().join(name)

    def take_turn(self) -> None:
        self.order.append(self.name)
        while time.monotonic_ns() < self.turns.ends_ns:
            pass
        self.left -= 1
        if self.left:
            self.turns.wait(self.usage, self)


def test_clients_that_wait_take_turns() -> None:
    async def main() -> None:
        order: list[str] = []
        turns = Turns(asyncio.get_running_loop())
        waiters = [Waiter(turns, "a", 3, order), Waiter(turns, "b", 3, order)]
        for waiter in waiters:
            turns.wait(waiter.usage, waiter)
        await until(lambda: len(order) == 6)
        assert order == ["a", "b"] * 3

    asyncio.run(main())


def test_one_turn_of_the_loop_is_short_however_many_clients_wait() -> None:
    async def main() -> None:
        order: list[str] = []
        loop = asyncio.get_running_loop()
        turns = Turns(loop)
        for number in range(50):
            waiter = Waiter(turns, str(number), 1, order)
            turns.wait(waiter.usage, waiter)
        seen = deque[int]()

        def look() -> None:
            seen.append(len(order))
            if len(order) < 50:
                loop.call_soon(look)

        loop.call_soon(look)
        await until(lambda: len(order) == 50)
        most = TURN_NS // SLICE_NS + 1
        assert max(later - earlier for earlier, later in zip(seen, list(seen)[1:], strict=False)) <= most

    asyncio.run(main())


def test_client_alone_has_more_time_than_one_that_shares_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1 << 40  # where a window begins
    monkeypatch.setattr(remoting_turns, "monotonic_ns", lambda: now)

    def use(usage: ClientUsage) -> bool:
        """Whether it may go on, after which it uses half a slice."""
        nonlocal now
        may = turns.begin(usage)
        now += SLICE_NS // 2
        turns.end(usage)
        return may

    async def main() -> None:
        nonlocal now, turns
        turns = Turns(asyncio.get_running_loop())
        usages = ClientUsages()
        one, other = usages.join("one"), usages.join("other")
        assert [use(one) for _ in range(6)] == [True] * 6
        now = (1 << 40) + (1 << client_usage.WINDOW_BITS)
        assert use(other)
        assert [use(one) for _ in range(4)] == [True, True, False, False]
        now = (1 << 40) + (2 << client_usage.WINDOW_BITS)
        assert not use(one)  # it has used twice its share in the window before
        now = (1 << 40) + (4 << client_usage.WINDOW_BITS)
        assert use(one)
        now += 1 << 30
        assert [use(one) for _ in range(4)] == [True] * 4

    turns: Turns
    asyncio.run(main())


def test_loop_turns_although_a_client_alone_has_data_on_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1 << 40
    monkeypatch.setattr(remoting_turns, "monotonic_ns", lambda: now)

    async def main() -> None:
        nonlocal now
        turns, usage = Turns(asyncio.get_running_loop()), ClientUsages().join("one")
        for _ in range(3):
            began = 0
            while turns.begin(usage):
                began += 1
                now += 1 << 20
                turns.end(usage)
            assert 9 <= began <= 10
            await asyncio.sleep(0)

    asyncio.run(main())


def test_connections_of_a_client_alone_are_served_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1 << 40
    monkeypatch.setattr(remoting_turns, "monotonic_ns", lambda: now)
    served = [0] * 20

    class Flooding:
        """A connection that always has data for 2 ms of work."""

        is_waiting = False

        def __init__(self, number: int, turns: Turns, usage: ClientUsage) -> None:
            self.number, self.turns, self.usage = number, turns, usage

        def read(self) -> None:
            if self.is_waiting:
                return
            if self.turns.begin(self.usage):
                self.work()
                self.turns.end(self.usage)
            else:
                self.is_waiting = True
                self.turns.wait(self.usage, self)

        def take_turn(self) -> None:
            self.is_waiting = False
            self.work()

        def work(self) -> None:
            nonlocal now
            now += 2_000_000
            served[self.number] += 1

    async def main() -> None:
        turns, usage = Turns(asyncio.get_running_loop()), ClientUsages().join("one")
        connections = [Flooding(number, turns, usage) for number in range(len(served))]
        longest_ns = 0
        for _ in range(200):
            began = now
            for connection in connections:
                connection.read()
            await asyncio.sleep(0)
            longest_ns = max(longest_ns, now - began)
        assert max(served) <= min(served) + 1
        assert sum(served) * 2_000_000 >= 200 * LOOP_NS  # the client is alone: it has all of the time
        assert longest_ns <= LOOP_NS

    asyncio.run(main())


@asynccontextmanager
async def working_server() -> AsyncIterator[tuple[RemotingServer, int]]:
    def work(_: Connection, command: RemotingCommand) -> RemotingCommand:
        end = time.thread_time() + WORK_S
        while time.thread_time() < end:
            pass
        return response_to(command, 0)

    table = HandlerTable()
    table.register(WORK, work)
    server = RemotingServer(table)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        await server.stop(1)


async def connect(port: int, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0), limit=1 << 24)


@pytest.mark.slow
def test_pipelined_requests_of_one_client_do_not_hold_up_another() -> None:
    count = 2000

    async def main() -> None:
        async with working_server() as (server, port):
            peers = [await connect(port, "127.0.0.2") for _ in range(4)]
            reader, writer = await connect(port, "127.0.0.1")
            request = create_request(WORK).encode()
            for _, flooding in peers:
                flooding.write(request * count)
            slowest = 0.0
            began = time.thread_time()
            for _ in range(100):
                at = time.thread_time()
                writer.write(request)
                await reader.read(65536)
                slowest = max(slowest, time.thread_time() - at)
            # All of the flood takes 1.6 s of work. Nobody else waited for it, and it was not forgotten.
            assert time.thread_time() - began < 4 * count * WORK_S
            assert slowest < count * WORK_S / 4
            assert server.waits > 0
            for answers, flooding in peers:
                decoder, found = FrameDecoder(), 0
                while found < count:
                    found += len(decoder.feed(await answers.read(1 << 20)))
                flooding.close()
            writer.close()

    asyncio.run(main())


def test_addresses_of_one_ipv6_network_are_one_client() -> None:
    assert name_of_address("2001:db8:1:2:3:4:5:6") == name_of_address("2001:db8:1:2::9") == "address 2001:db8:1:2::/64"
    assert name_of_address("::1") == "address 0:0:0:0::/64"
    assert name_of_address("fe80::1%eth0") == "address fe80:0:0:0::/64"
    assert name_of_address("::ffff:10.0.0.1") == name_of_address("10.0.0.1") == "address 10.0.0.1"
    assert name_of_account("10.0.0.1") != name_of_address("10.0.0.1")


def test_waiting_clients_get_an_eighth_of_the_time_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1 << 40
    monkeypatch.setattr(remoting_turns, "monotonic_ns", lambda: now)
    used: list[int] = []

    class Flood:
        """Always has more work, in pieces of 0.7 ms."""

        def __init__(self, turns: Turns, usage: ClientUsage) -> None:
            self.turns, self.usage = turns, usage

        def take_turn(self) -> None:
            nonlocal now
            now += 700_000
            used.append(700_000)
            self.turns.wait(self.usage, self)

    async def main() -> None:
        nonlocal now
        turns, usages = Turns(asyncio.get_running_loop()), ClientUsages()
        usage, other = usages.join("one"), usages.join("other")
        turns.begin(usage)
        turns.end(usage)
        for _ in range(10):
            turns.wait(usage, Flood(turns, usage))
        for _ in range(1000):
            turns.begin(other)
            now += 2_000_000
            turns.end(other)
            await asyncio.sleep(0)
        assert sum(used) == pytest.approx(1000 * 250_000, rel=0.01)
        used.clear()
        for _ in range(10):  # nobody else: all of the time
            await asyncio.sleep(0)
        assert sum(used) >= 10 * SLICE_NS

    asyncio.run(main())


def test_long_work_of_a_waiting_client_delays_those_that_wait_beside_it_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1 << 40
    monkeypatch.setattr(remoting_turns, "monotonic_ns", lambda: now)
    ran: list[str] = []

    class Once:
        def __init__(self, name: str, takes_ns: int) -> None:
            self.name, self.takes_ns = name, takes_ns

        def take_turn(self) -> None:
            nonlocal now
            now += self.takes_ns
            ran.append(self.name)

    async def main() -> None:
        nonlocal now
        turns, usages = Turns(asyncio.get_running_loop()), ClientUsages()
        turns.wait(usages.join("one"), Once("long", 1_000_000_000))
        turns.wait(usages.join("other"), Once("short", 10_000))
        others_ns = 0
        while len(ran) < 2:
            now += 2_000_000
            others_ns += 2_000_000
            await asyncio.sleep(0)
        assert ran == ["long", "short"]
        assert others_ns <= 4 * LOOP_NS + 4_000_000

    asyncio.run(main())


def test_connections_that_waiting_clients_open_are_not_time_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1 << 40
    monkeypatch.setattr(remoting_turns, "monotonic_ns", lambda: now)
    opened = 0

    class Opening:
        """Opens connections without end. The loop opens each after the turn."""

        def __init__(self, turns: Turns, usage: ClientUsage) -> None:
            self.turns, self.usage = turns, usage

        def take_turn(self) -> None:
            nonlocal opened
            opened += 1
            self.turns.charge(self.usage, 200_000)
            asyncio.get_running_loop().call_soon(self.open)
            self.turns.wait(self.usage, self)

        def open(self) -> None:
            nonlocal now
            now += 200_000

    async def main() -> None:
        nonlocal now
        turns, usages = Turns(asyncio.get_running_loop()), ClientUsages()
        usage, other = usages.join("one"), usages.join("other")
        turns.begin(usage)
        turns.end(usage)
        for _ in range(20):
            turns.wait(usage, Opening(turns, usage))
        for _ in range(1000):
            turns.begin(other)
            now += 2_000_000
            turns.end(other)
            await asyncio.sleep(0)
        assert opened * 200_000 == pytest.approx(1000 * 250_000, rel=0.02)

    asyncio.run(main())


def test_connections_that_a_client_alone_opens_are_not_missing_when_another_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1 << 40
    monkeypatch.setattr(remoting_turns, "monotonic_ns", lambda: now)

    async def main() -> None:
        nonlocal now
        turns, usages = Turns(asyncio.get_running_loop()), ClientUsages()
        one = usages.join("one")
        for _ in range(60):
            assert turns.begin(one)
            turns.charge(one, 150_000)
            turns.end(one)
        await asyncio.sleep(0)
        now += 1 << client_usage.WINDOW_BITS
        assert turns.begin(usages.join("other"))
        turns.end(usages.join("other"))
        assert turns.begin(one)

    asyncio.run(main())


def test_usage_of_a_client_without_connections_is_forgotten() -> None:
    usages = ClientUsages()
    first, second = usages.join("one"), usages.join("one")
    assert first is second
    usages.leave(first)
    assert len(usages) == 1
    usages.leave(first)
    assert len(usages) == 0


def test_client_that_connects_again_in_the_same_or_the_next_window_has_used_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1 << 40
    monkeypatch.setattr(client_usage, "monotonic_ns", lambda: now)
    usages = ClientUsages()
    first = usages.join_address("192.0.2.1")
    first.window = now >> client_usage.WINDOW_BITS
    usages.leave_address(first)
    assert usages.join_address("192.0.2.1") is first
    usages.leave_address(first)
    now += 1 << client_usage.WINDOW_BITS
    usages.leave_address(usages.join_address("192.0.2.2"))
    assert usages.join_address("192.0.2.1") is first
    usages.leave_address(first)
    now += 1 << client_usage.WINDOW_BITS
    usages.leave_address(usages.join_address("192.0.2.2"))
    assert len(usages) == 0
    assert usages.join_address("192.0.2.1") is not first


def test_long_work_of_many_requests_of_a_client_takes_turns_with_other_clients() -> None:
    async def main() -> None:
        seen: list[str] = []

        def steps(name: str) -> Generator[None, None, str]:
            for _ in range(4):
                end = time.monotonic_ns() + SLICE_NS
                while time.monotonic_ns() < end:
                    pass
                seen.append(name)
                yield
            return name

        async def work(connection: Connection, command: RemotingCommand) -> RemotingCommand:
            return response_to(command, 0, await in_slices(connection, steps(connection.remote_address[0])))

        table = HandlerTable()
        table.register(WORK, work)
        server = RemotingServer(table)
        port = await server.listen("127.0.0.1", 0)
        busy = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.1", 0))
        busy[1].write(b"".join(create_request(WORK).encode() for _ in range(30)))
        await until(lambda: seen)
        other = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        other[1].write(create_request(WORK).encode())
        (answer,) = FrameDecoder().feed(await other[0].read(65536))
        assert answer.remark == "127.0.0.2"
        first, count = seen.index("127.0.0.2"), seen.count("127.0.0.2")
        last = len(seen) - 1 - seen[::-1].index("127.0.0.2")
        # A step of each in turn.
        assert count - 1 <= seen[first:last].count("127.0.0.1") <= 2 * count
        assert len(seen) < 4 * 31, "the others are not done yet"
        for _, writer in (busy, other):
            writer.close()
        await server.stop(1)

    asyncio.run(main())


def test_long_work_raises_what_a_step_raises_and_ends_when_it_is_cancelled() -> None:
    async def main() -> None:
        began, ended = [], []

        def failing() -> Generator[None, None, None]:
            yield
            raise ValueError("bad")

        def endless() -> Generator[None, None, None]:
            began.append(True)
            try:
                while True:
                    yield
            finally:
                ended.append(True)

        server = RemotingServer(HandlerTable())
        port = await server.listen("127.0.0.1", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: server.connections)
        (connection,) = server.connections
        with pytest.raises(ValueError, match="bad"):
            await in_slices(connection, failing())
        task = asyncio.ensure_future(in_slices(connection, endless()))
        await until(lambda: began)
        task.cancel()
        await until(lambda: ended)
        writer.close()
        await server.stop(1)

    asyncio.run(main())
