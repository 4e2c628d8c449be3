"""FilterFunctions: which function runs where, what is counted of it, and when it is out of use. The workers are real."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.config import BrokerConfig
from broker.filtering.filter_functions import MOST_FAILURES, FilterFunctions
from broker.filtering.python_filters import NoWorker, PythonFilterFailed
from headrace.protocol.record import encode_record
from store.filter.python.functions import FilterFunction, FunctionFolder, is_name, read_report
from support.filter_workers import FilterWorkers
from support.loops import until

pytestmark = pytest.mark.slow

LONG = "def wants(message):\n    return len(message.body) > 3\n"
DIES = "import os\ndef wants(message):\n    os._exit(0)\n"
RAISES = "def wants(message):\n    raise ValueError('dear')\n"


class World:
    """Functions over real workers, with a clock that stands still but for what a test puts it forward, and `tick_s` with each look at it."""

    def __init__(self, root: Path, workers: FilterWorkers) -> None:
        self.folder = FunctionFolder(root / "config" / "filters")
        self.report = root / "config" / "pythonFilters.json"
        self.workers = workers
        self.now = 1000.0
        self.tick_s = 0.0
        self.functions = self.begin()

    def begin(self, timeout_ms: int = 20_000) -> FilterFunctions:
        config = BrokerConfig(python_filter_timeout=timeout_ms)
        self.functions = FilterFunctions(self.folder, self.workers.paths, config, self.report, self.clock)
        return self.functions

    def clock(self) -> float:
        self.now += self.tick_s
        return self.now

    async def ask(self, name: str, *bodies: str) -> list[bool]:
        """As a pull does."""
        found = self.functions.find(name)
        assert isinstance(found, FilterFunction), found
        return await self.functions.match(
            name, lambda: [encode_record(topic="T", body=body.encode()) for body in bodies]
        )

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def within() -> Any:
            try:
                async with asyncio.timeout(60):
                    return await work
            finally:
                self.functions.close()

        return asyncio.run(within())


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[[int], World]]:
    made: list[FilterWorkers] = []

    def make(count: int) -> World:
        made.append(FilterWorkers(tmp_path / "workers", count).__enter__())
        return World(tmp_path / "store", made[-1])

    yield make
    for workers in made:
        workers.__exit__()


def test_function_name_cannot_be_a_path() -> None:
    assert all(is_name(name) for name in ("a", "Long-bodies_2", "x" * 64))
    bad = ("", "../a", "a/b", "a.b", ".", "-a", "1a", "a b", "a\n", "ä", "x" * 65, "a\0")
    assert not any(is_name(name) for name in bad)


def test_error_for_an_unusable_function_names_the_remedy(tmp_path: Path) -> None:
    folder = FunctionFolder(tmp_path / "filters")
    folder.put("long", LONG)
    without = FilterFunctions(folder, (), BrokerConfig(), tmp_path / "report")
    assert "pythonFilterWorkers" in str(without.find("long"))
    functions = FilterFunctions(folder, [tmp_path / "nobody"], BrokerConfig(), tmp_path / "report")
    assert isinstance(functions.find("long"), FilterFunction)
    assert functions.find("../filters/long") == (
        "filter function ../filters/long does not exist; install it with: headrace filter put ../filters/long.py"
    )
    (tmp_path / "filters" / "latin.py").write_bytes(b"\xe4")
    assert functions.find("latin") == "the filter function latin cannot be read: not UTF-8 (byte 0)"


def test_functions_select_messages_and_are_counted(make_world: Callable[[int], World]) -> None:
    world = make_world(2)
    world.folder.put("long", LONG)
    world.folder.put("raises", RAISES)
    world.tick_s = 0.001

    async def work() -> None:
        assert await world.ask("long", "abc", "abcd", "abcde") == [False, True, True]
        assert await asyncio.gather(*(world.ask("long", "abcd") for _ in range(5))) == [[True]] * 5
        assert await world.ask("raises", "a", "b") == [False, False]

    world.run(work())
    report = read_report(world.report)
    long, raises = report["long"], report["raises"]
    assert [long[key] for key in ("calls", "messages", "matched", "failures", "failed_messages")] == [6, 8, 7, 0, 0]
    assert long["busy_ms"] > 0
    assert [raises[key] for key in ("calls", "messages", "matched", "failures", "failed_messages")] == [1, 2, 0, 0, 2]
    assert raises["last_reason"] == "ValueError: dear (line 2)"
    assert raises["last_failure_ms"] > 0
    assert not raises["disabled_reason"]


def test_function_is_disabled_after_three_failures_within_a_minute(make_world: Callable[[int], World]) -> None:
    world = make_world(1)
    world.folder.put("dies", DIES)

    async def fail() -> None:
        with pytest.raises(PythonFilterFailed, match="the filter function dies crashed: its worker process exited"):
            await world.ask("dies", "a")

    async def work() -> None:
        await fail()
        world.now += 100
        for _ in range(MOST_FAILURES):
            assert isinstance(world.functions.find("dies"), FilterFunction)
            await fail()
        assert "is disabled because it crashed: its worker process exited" in str(world.functions.find("dies"))
        # Also for a broker that is started again …
        world.functions.close()
        world.begin()
        assert str(world.functions.find("dies")).endswith(
            "; fix it and run: headrace filter put dies.py; to enable it unchanged: headrace filter enable dies"
        )
        # … and one that is put right is noticed by itself.
        world.folder.put("dies", LONG)
        world.now += 1
        assert await world.ask("dies", "abcd") == [True]

    world.run(work())
    assert read_report(world.report)["dies"]["disabled_reason"] == ""


def test_worker_of_an_idle_function_is_reassigned(make_world: Callable[[int], World]) -> None:
    world = make_world(1)
    for name in ("one", "two"):
        world.folder.put(name, LONG)

    async def work() -> None:
        assert await world.ask("one", "abcd") == [True]
        with pytest.raises(NoWorker, match="two has no worker: all 1 are busy with other functions"):
            await world.ask("two", "abcd")
        world.now += 10
        assert await world.ask("two", "abcd") == [True]
        world.now += 10
        assert await world.ask("one", "abcd") == [True]

    world.run(work())
    report = read_report(world.report)
    assert report["one"]["failures"] == 0
    assert (report["two"]["failures"], report["two"]["disabled_reason"]) == (1, "")


def test_kill_of_an_idle_worker_is_not_a_failure(make_world: Callable[[int], World]) -> None:
    world = make_world(1)
    world.folder.put("long", LONG)

    async def work() -> None:
        assert await world.ask("long", "abcd") == [True]
        process = world.workers.processes[world.workers.paths[0]]
        process.kill()
        await until(lambda: world.workers.starts == 2)
        assert await world.ask("long", "abcd") == [True]

    world.run(work())
    assert read_report(world.report)["long"]["failures"] == 0


def test_new_version_replaces_a_running_one(make_world: Callable[[int], World]) -> None:
    world = make_world(1)
    world.folder.put("f", "def wants(message):\n    while True: pass\n")

    async def work() -> None:
        stuck = asyncio.ensure_future(world.ask("f", "abcd"))
        await until(lambda: any(one.worker is not None for one in world.functions._functions.values()))
        world.folder.put("f", LONG)
        world.now += 1
        assert await world.ask("f", "abcd") == [True]
        with pytest.raises(PythonFilterFailed, match="was replaced; pull again"):
            await stuck

    world.run(work())
    assert read_report(world.report)["f"]["failures"] == 0


def test_cancelled_request_leaves_the_function_to_others(make_world: Callable[[int], World]) -> None:
    world = make_world(1)
    world.folder.put("long", LONG)

    asking: list[asyncio.Future[list[bool]]] = []

    def leave() -> list[bytes]:
        asking[0].cancel()
        return [encode_record(topic="T", body=b"abcd")]

    async def work() -> None:
        await world.ask("long", "a")
        asking.append(asyncio.ensure_future(world.functions.match("long", leave)))
        with pytest.raises(asyncio.CancelledError):
            await asking[0]
        assert await world.ask("long", "abcd", "b") == [True, False]

    world.run(work())
    report = read_report(world.report)["long"]
    assert (report["calls"], report["failures"]) == (3, 0)


def test_request_cancelled_before_its_turn_is_not_evaluated(make_world: Callable[[int], World]) -> None:
    world = make_world(1)
    world.folder.put("long", LONG)
    asking: list[asyncio.Future[list[bool]]] = []
    shown: list[int] = []

    def show(number: int) -> list[bytes]:
        shown.append(number)
        asking[1].cancel()
        return [encode_record(topic="T", body=b"abcd")]

    async def work() -> None:
        await world.ask("long", "a")
        asking.extend(
            asyncio.ensure_future(world.functions.match("long", partial(show, number))) for number in range(3)
        )
        assert await asking[2] == [True]
        assert shown == [0, 2]
        assert await asking[0] == [True]

    world.run(work())


def test_selective_function_gets_larger_batches_and_a_slow_one_smaller(make_world: Callable[[int], World]) -> None:
    world = make_world(2)
    world.begin(4000)
    world.folder.put("never", "def wants(message):\n    return False\n")
    world.folder.put("slow", "def wants(message):\n    return False\n")

    async def work() -> None:
        for _ in range(30):
            await world.ask("never", "a")
        world.tick_s = 0.1
        for _ in range(4):
            await world.ask("slow", "a")
        assert world.functions.most_candidates("never", 32) == 800
        assert world.functions.most_candidates("slow", 32) < 32

    world.run(work())


def test_unused_functions_are_reported_and_removed_ones_are_not(make_world: Callable[[int], World]) -> None:
    world = make_world(1)
    world.folder.put("asked", LONG)
    world.folder.put("unasked", LONG)

    async def work() -> None:
        keeping = asyncio.ensure_future(world.functions.keep())
        await world.ask("asked", "abcd")
        await until(lambda: read_report(world.report).keys() == {"asked", "unasked"})
        world.folder.remove("unasked")
        await until(lambda: "unasked" not in read_report(world.report))
        keeping.cancel()

    world.run(work())
    assert list(read_report(world.report)) == ["asked"]
