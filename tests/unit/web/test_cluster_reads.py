import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace import Admin
from headrace.client.settings import ClientConfig
from web.cluster.cluster import Cluster

Fetch = Callable[[Admin], Awaitable[Any]]


def counting(answers: list[Any]) -> tuple[Fetch, list[int]]:
    """A fetch that returns the answers one after another, or raises them, and how often it was called."""
    calls: list[int] = []

    async def fetch(_admin: Admin) -> Any:
        calls.append(1)
        await asyncio.sleep(0)
        answer = answers[min(len(calls), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return fetch, calls


async def read_many(cluster: Cluster, fetch: Fetch, count: int) -> list[Any]:
    return await asyncio.gather(*(cluster.read(("key",), fetch) for _ in range(count)))


def cluster() -> Cluster:
    return Cluster(ClientConfig("127.0.0.1:1"))


def test_pages_that_ask_at_once_share_one_request() -> None:
    async def run() -> None:
        fetch, calls = counting([7])
        one = cluster()
        assert await read_many(one, fetch, 50) == [7] * 50
        assert await read_many(one, fetch, 50) == [7] * 50
        assert len(calls) == 1

    asyncio.run(run())


def test_answer_that_is_not_fresh_any_more_is_fetched_again() -> None:
    async def run() -> None:
        fetch, calls = counting([1, 2])
        one = cluster()
        assert await one.read(("key",), fetch) == 1
        assert await one.read(("key",), fetch, fresh_s=-1) == 2
        assert len(calls) == 2

    asyncio.run(run())


def test_failures_reach_every_waiting_page_and_are_not_kept() -> None:
    async def run() -> None:
        fetch, _ = counting([OSError("down"), 3])
        one = cluster()
        answers = await asyncio.gather(*(one.read(("key",), fetch) for _ in range(3)), return_exceptions=True)
        assert [str(answer) for answer in answers] == ["down"] * 3
        assert await one.read(("key",), fetch) == 3

    asyncio.run(run())


def test_page_that_gives_up_does_not_cancel_the_request_of_others() -> None:
    async def run() -> None:
        released = asyncio.Event()

        async def fetch(_admin: Admin) -> int:
            await released.wait()
            return 5

        one = cluster()
        impatient = asyncio.ensure_future(one.read(("key",), fetch))
        patient = asyncio.ensure_future(one.read(("key",), fetch))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        released.set()
        assert await patient == 5

    asyncio.run(run())


def test_change_makes_the_next_page_read_again_even_if_a_read_is_in_progress() -> None:
    async def run() -> None:
        released = asyncio.Event()

        async def old(_admin: Admin) -> str:
            await released.wait()
            return "old"

        one = cluster()
        before = asyncio.ensure_future(one.read(("key",), old))
        await asyncio.sleep(0)
        one.forget()
        fetch, _ = counting(["new"])
        assert await one.read(("key",), fetch) == "new"
        released.set()
        assert await before == "old"
        assert await one.read(("key",), fetch) == "new"

    asyncio.run(run())


def test_requests_in_progress_are_bounded() -> None:
    async def run() -> None:
        now, most = 0, 0

        async def fetch(_admin: Admin) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

        one = cluster()
        await one.map(lambda key: one.read((key,), fetch), range(100))
        assert most <= 16

    asyncio.run(run())
