"""How much a producer has in flight at once: further sends wait, in their order."""

import asyncio

import pytest

from headrace import ConfigError, Message, Producer
from headrace.client.producing.in_flight import InFlight
from headrace.errors import SendFailed, TooManyRequests
from headrace.sync import Producer as SyncProducer
from headrace.sync.slots import Slots
from support.sdk import run
from support.sdk_cluster import Answer, Cluster


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records how many messages were in flight at each arrival."""
    seen: list[int] = []
    leave = InFlight.leave

    def noted(self: InFlight, size: int) -> None:
        seen.append(self._messages)
        leave(self, size)

    monkeypatch.setattr(InFlight, "leave", noted)
    return seen


@pytest.mark.parametrize("linger", [None, 0.001])
def test_sends_beyond_max_in_flight_wait_and_all_succeed(watched: list[int], linger: float | None) -> None:
    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            Producer(
                "g", cluster.name_server, max_in_flight=16, max_in_flight_bytes=100_000, linger=linger
            ) as producer,
        ):
            results = await asyncio.gather(*(producer.send(Message("T", bytes(1000))) for _ in range(500)))
            assert all(result.ok for result in results)

    run(main())
    assert max(watched) <= (16 if linger is None else 100)


def test_waiting_for_max_in_flight_does_not_count_against_the_timeout() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server, max_in_flight=1) as producer:
            cluster.brokers["a"].answers = [Answer(delay_s=0.2) for _ in range(5)]
            sends = [producer.send(Message("T", b"x"), timeout=0.5) for _ in range(5)]
            assert all(result.ok for result in await asyncio.gather(*sends))

    run(main())


def test_failed_and_cancelled_sends_release_their_share_of_max_in_flight() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server, max_in_flight=2, retries=0) as producer:
            await producer.send(Message("T", b"x"))
            broker = cluster.brokers["a"]
            broker.answers = [Answer(1), Answer(delay_s=5)]
            first, second, third, fourth = (asyncio.ensure_future(producer.send(Message("T", b"x"))) for _ in range(4))
            with pytest.raises(SendFailed):
                await first
            fourth.cancel()
            second.cancel()
            assert (await third).ok
            for _ in range(3):
                assert (await producer.send(Message("T", b"x"))).ok

    run(main())


def test_message_larger_than_max_in_flight_bytes_is_sent_alone() -> None:
    async def main() -> None:
        in_flight = InFlight(10, 100)
        await in_flight.enter(1000)
        assert not in_flight.try_enter(1)
        waiting = asyncio.ensure_future(in_flight.enter(1))
        await asyncio.sleep(0)
        in_flight.leave(1000)
        await waiting
        assert in_flight.try_enter(99)
        assert not in_flight.try_enter(1)

    run(main())


def test_max_in_flight_of_zero_is_rejected() -> None:
    with pytest.raises(ConfigError, match="max_in_flight"):
        Producer("g", "127.0.0.1:1", max_in_flight=0)


def test_send_nowait_waits_or_raises_as_asked() -> None:
    slots = Slots(2, 100)
    slots.acquire(10, wait=False)
    slots.acquire(10, wait=False)
    with pytest.raises(TooManyRequests, match="max_in_flight"):
        slots.acquire(10, wait=False)
    slots.release(10)
    slots.acquire(10, wait=True)


def test_send_nowait_raises_while_too_many_sends_are_in_flight() -> None:
    with SyncProducer("g", "127.0.0.1:1", max_in_flight=1, send_timeout=0.5) as producer:
        first = producer.send_nowait(Message("T", b"x"))
        with pytest.raises(TooManyRequests):
            producer.send_nowait(Message("T", b"x"), wait=False)
        second = producer.send_nowait(Message("T", b"x"))
        assert first.done()
        assert first.exception() is not None
        assert second.exception() is not None
