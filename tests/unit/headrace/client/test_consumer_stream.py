"""Messages taken one by one: requesting the next completes the previous one, in whichever task."""

import asyncio

import pytest

from headrace import LitePullConsumer, PushConsumer, StartFrom, StateError
from headrace.sync import PushConsumer as SyncPushConsumer
from support.consuming import eventually
from support.consuming_broker import consuming_cluster
from support.sdk import run

KEY = ("g", "T", 0)


def consumer_of(name_server: str) -> PushConsumer:
    consumer = PushConsumer("g", name_server, start_from=StartFrom.FIRST)
    consumer.subscribe("T")
    return consumer


def test_several_loops_share_the_messages() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", *(str(number).encode() for number in range(40)))
            seen: list[tuple[int, bytes]] = []

            async def loop(number: int) -> None:
                async for message in consumer:
                    seen.append((number, message.body))
                    await asyncio.sleep(0.001)

            # One pull: messages of two loops may be completed in any order, and the offset stays at the smallest incomplete one.
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST, pull_batch_size=64)
            consumer.subscribe("T")
            async with consumer:
                loops = [asyncio.create_task(loop(number)) for number in range(3)]
                await eventually(lambda: len(seen) == 40, "all messages")
            await asyncio.gather(*loops)
            assert {number for number, _ in seen} == {0, 1, 2}
            assert len({body for _, body in seen}) == len(seen) == 40
            assert broker.offsets[KEY] >= 37

    run(main())


@pytest.mark.parametrize("orderly", [False, True])
def test_close_does_not_wait_for_messages_not_iterated(orderly: bool) -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", *(str(number).encode() for number in range(100)))
            # Longer than a test may take: a consumer that waits for it does not close in time.
            consumer = PushConsumer(
                "g", cluster.name_server, start_from=StartFrom.FIRST, workers=4, orderly=orderly, close_timeout=600
            )
            consumer.subscribe("T")
            async with consumer:
                async for message in consumer:
                    if message.queue_offset == 7:
                        break
                await eventually(lambda: len(consumer.assignment()) == 1, "the queue")
            assert broker.offsets[KEY] == 7, "what was taken last was not said to be done with"

    run(main())


def test_cancelled_iterator_consumes_no_message() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            consumer = consumer_of(cluster.name_server)
            async with consumer:
                impatient = asyncio.create_task(anext(aiter(consumer)))
                patient = asyncio.create_task(anext(aiter(consumer)))
                await eventually(lambda: consumer._handout and len(consumer._handout._takers) == 2, "both wait")
                broker.store("T", b"only")
                impatient.cancel()
                async with asyncio.timeout(60):
                    assert (await patient).body == b"only"

    run(main())


def test_consumer_with_handlers_cannot_be_iterated() -> None:
    consumer = PushConsumer("g", "127.0.0.1:1")
    consumer.subscribe("T", "*", lambda _: None)
    with pytest.raises(StateError, match="has handlers"):
        aiter(consumer)


def test_synchronous_consumer_can_be_iterated() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", b"0", b"1", b"2")

            def consume() -> list[bytes]:
                consumer = SyncPushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST)
                consumer.subscribe("T")
                seen: list[bytes] = []
                with consumer:
                    for message in consumer:
                        seen.append(message.body)
                        if len(seen) == 3:
                            break
                return seen

            assert await asyncio.get_running_loop().run_in_executor(None, consume) == [b"0", b"1", b"2"]
            assert broker.offsets[KEY] == 2
            await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(main())


def test_lite_pull_consumer_ends_its_iteration_when_it_is_closed() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            broker.store("T", b"0", b"1", b"2")
            consumer = LitePullConsumer("g", cluster.name_server, start_from=StartFrom.FIRST)
            consumer.subscribe("T")
            seen: list[bytes] = []

            async def loop() -> None:
                async for message in consumer:
                    seen.append(message.body)  # noqa: PERF401 (it is looked at while it grows)

            async with consumer:
                task = asyncio.create_task(loop())
                await eventually(lambda: len(seen) == 3, "all messages")
            await task
            assert broker.offsets[KEY] == 3

    run(main())
