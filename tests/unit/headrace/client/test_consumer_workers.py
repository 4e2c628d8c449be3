"""Workers: as many run as there is work for, up to the setting; none is left at the end."""

import asyncio
import threading

from headrace.client.consuming.push.consume_workers import TaskWorkers, ThreadWorkers
from support.consuming import eventually
from support.sdk import run


def test_all_threads_run_when_handlers_block() -> None:
    async def main() -> None:
        gate, at_work = threading.Barrier(5, timeout=60), []

        def work(piece: int) -> None:
            gate.wait()  # all five must be here at the same time
            at_work.append(piece)

        workers = ThreadWorkers[int](5, work, "test")
        for piece in range(10):
            workers.put(piece)
        await eventually(lambda: len(at_work) == 10, "all work")
        await workers.close()

    run(main())


def test_number_of_threads_can_be_changed() -> None:
    async def main() -> None:
        names: set[str] = set()

        def work(_piece: int) -> None:
            names.add(threading.current_thread().name)

        workers = ThreadWorkers[int](2, work, "test")
        workers.put(0)
        await eventually(lambda: names, "begun")
        workers.resize(4)
        gate = threading.Barrier(4, timeout=60)
        done: list[int] = []

        def together(piece: int) -> None:
            gate.wait()
            done.append(piece)

        workers._work = together
        more = ThreadWorkers[int](4, together, "more")
        for piece in range(4):
            more.put(piece)
        await eventually(lambda: len(done) == 4, "four at once")
        more.resize(1)
        await more.close()
        await workers.close()

    run(main())


def test_tasks_are_started_on_demand() -> None:
    async def main() -> None:
        at_work, most, done = 0, 0, []
        gate = asyncio.Event()

        async def work(piece: int) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            if piece >= 5:
                await gate.wait()
            at_work -= 1
            done.append(piece)

        def start(coroutine: object, _name: str) -> "asyncio.Task[None]":
            return asyncio.get_running_loop().create_task(coroutine)  # type: ignore[arg-type]

        workers = TaskWorkers[int](3, work, start)
        for piece in range(5):
            workers.put(piece)
        await eventually(lambda: len(done) == 5, "quick work")
        assert most == 1  # who does not wait is alone at it
        for piece in range(5, 15):
            workers.put(piece)
        await eventually(lambda: at_work == 3, "three at work")
        workers.resize(5)
        await eventually(lambda: at_work == 5, "five at work")
        gate.set()
        await eventually(lambda: len(done) == 15, "all work")
        workers.resize(1)
        await workers.close()

    run(main())


def test_closing_cancels_running_coroutines() -> None:
    async def main() -> None:
        begun, cancelled = [], []

        async def work(piece: int) -> None:
            begun.append(piece)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(piece)
                raise

        def start(coroutine: object, _name: str) -> "asyncio.Task[None]":
            return asyncio.get_running_loop().create_task(coroutine)  # type: ignore[arg-type]

        workers = TaskWorkers[int](2, work, start)
        for piece in range(4):
            workers.put(piece)
        await eventually(lambda: len(begun) == 2, "two at work")
        await workers.close()
        assert sorted(cancelled) == [0, 1]

    run(main())
