import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

from headrace.remoting.deadlines import Deadlines, wait_in_time
from support.loops import until


class FakeTimer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call, self.is_cancelled = at, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """A clock that a test moves, and the timers set on it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(at, call))
        return self.timers[-1]

    @property
    def armed(self) -> list[FakeTimer]:
        return [timer for timer in self.timers if not timer.is_cancelled]

    def move(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted((timer for timer in self.armed if timer.at <= end), key=lambda timer: timer.at):
            self.timers.remove(due[0])
            self.now = max(self.now, due[0].at)
            due[0].call()
        self.now = end


class FakeFuture:
    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.is_done = False

    def done(self) -> bool:
        return self.is_done

    def set_exception(self, error: BaseException) -> None:
        self.error, self.is_done = error, True


def make() -> tuple[FakeLoop, Deadlines]:
    loop = FakeLoop()
    return loop, Deadlines(cast(asyncio.AbstractEventLoop, loop))


def watch(deadlines: Deadlines, timeout_s: float) -> tuple[Any, int]:
    future: Any = FakeFuture()
    return future, deadlines.add(future, timeout_s, TimeoutError)


def test_future_fails_at_its_deadline_and_never_before() -> None:
    loop, deadlines = make()
    future, _ = watch(deadlines, 3.0)
    loop.move(2.999)
    assert not future.done()
    loop.move(0.012)
    assert isinstance(future.error, TimeoutError)
    assert len(deadlines) == 0
    assert not loop.armed


def test_thousand_futures_need_one_timer() -> None:
    loop, deadlines = make()
    futures = [watch(deadlines, 1 + number / 1000)[0] for number in range(1000)]
    assert len(loop.armed) == 1
    loop.move(1.5)
    assert 480 <= sum(future.done() for future in futures) <= 501
    assert len(loop.armed) == 1
    loop.move(0.6)
    assert all(future.done() for future in futures)


def test_earlier_deadline_is_met_although_a_later_one_was_added_first() -> None:
    loop, deadlines = make()
    late, _ = watch(deadlines, 30)
    early, _ = watch(deadlines, 0.1)
    loop.move(0.2)
    assert early.done()
    assert not late.done()
    assert len(loop.armed) == 1


def test_removed_future_is_not_failed_and_needs_no_timer() -> None:
    loop, deadlines = make()
    future, bucket = watch(deadlines, 1)
    deadlines.remove(future, bucket)
    deadlines.remove(future, bucket)
    assert len(deadlines) == 0
    loop.move(5)
    assert not future.done()
    assert not loop.armed


def test_completed_future_is_not_failed() -> None:
    loop, deadlines = make()
    future, _ = watch(deadlines, 1)
    future.is_done = True
    loop.move(5)
    assert future.error is None


def test_timer_called_too_early_waits_again() -> None:
    loop, deadlines = make()
    future, _ = watch(deadlines, 1)
    timer = loop.armed[0]
    loop.timers.remove(timer)
    timer.call()
    assert not future.done()
    loop.move(1.02)
    assert future.done()


def test_close_cancels_the_timer() -> None:
    loop, deadlines = make()
    watch(deadlines, 1)
    deadlines.close()
    assert not loop.armed


def test_time_of_a_loop_that_is_busy_as_a_whole_does_not_count() -> None:
    """Every deadline within the busy time, whether the loop comes to it late or by chance in time."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        begun: list[float] = []

        async def wait_after_work() -> float | None:
            time.sleep(0.01)  # noqa: ASYNC251 - the loop is to be busy
            begun.append(loop.time())
            return await wait_in_time(answer, 0.2)

        waiting = [asyncio.ensure_future(wait_after_work()) for _ in range(40)]
        await until(lambda: len(begun) == 40)
        await asyncio.sleep(0.03)  # the loop comes to the deadlines that passed while it was busy
        answer.set_result(None)
        left = await asyncio.gather(*waiting)
        assert all(each is not None and each > 0 for each in left)

    asyncio.run(main())


def test_task_done_in_time_leaves_time_for_what_follows_although_the_loop_was_busy() -> None:
    async def wait_while_busy(turns: int) -> float | None:
        answer = asyncio.get_running_loop().create_future()

        async def work() -> None:
            for _ in range(turns):
                time.sleep(0.003)  # noqa: ASYNC251 - the loop is to be busy
                await asyncio.sleep(0)
            answer.set_result(None)

        working = asyncio.create_task(work())
        left = await wait_in_time(answer, 0.01)
        await working
        return left

    left = [asyncio.run(wait_while_busy(turns)) for turns in range(1, 12)]
    assert all(each is None or each >= 0.0025 for each in left), left


def test_wait_in_time_returns_the_remaining_time_or_none() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        assert await wait_in_time(answer, 0.02) is None
        loop.call_later(0.01, answer.set_result, None)
        left = await wait_in_time(answer, 60)
        assert left is not None
        assert 0 < left < 60

    asyncio.run(main())
