"""RemoteOffsets: the latest offset is the one that stays stored. A failing store of the program stops nothing."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest

from headrace import BrokerError, HeadraceError, LitePullConsumer, PullConsumer, PushConsumer, StartFrom
from headrace.client.consuming.offset_store import OffsetMemory, Offsets
from headrace.model.message_queue import MessageQueue
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from support.consuming import eventually
from support.consuming_broker import ConsumingBroker, consuming_cluster
from support.sdk import run

QUEUE = MessageQueue("T", "broker-a", 0)
KEY = ("g", "T", 0)


class SlowToStore(ConsumingBroker):
    """Handles each request by itself, as brokers with many threads do; `may_store` holds up those that store an offset, by the offset.

    `asked`: the offsets that it was told to store, also those that it has not stored yet.
    """

    def __init__(self, name: str, queues: int) -> None:
        super().__init__(name, queues)
        self.may_store: dict[str, asyncio.Event] = {}
        self.asked: list[str] = []

    async def _serve(self, command: RemotingCommand) -> RemotingCommand | None:
        if command.code == RequestCode.UPDATE_CONSUMER_OFFSET:
            offset = command.ext["commitOffset"]
            self.asked.append(offset)
            if offset in self.may_store:
                await self.may_store[offset].wait()
        return await super()._serve(command)


@contextlib.asynccontextmanager
async def storing() -> AsyncIterator[tuple[SlowToStore, Offsets]]:
    """A broker that stores slowly, and a consumer's offset store."""
    async with consuming_cluster("%RETRY%g", "U") as (cluster, plain):
        broker = SlowToStore("broker-a", plain.queues)
        await plain.stop()
        cluster.brokers["broker-a"] = broker
        await broker.start()
        async with PullConsumer("g", cluster.name_server) as consumer:
            consumer.register_topic("T")
            assert consumer._store is not None
            yield broker, consumer._store


def test_older_offset_in_flight_is_not_stored_last() -> None:
    async def main() -> None:
        async with storing() as (broker, store):
            gate = broker.may_store["1"] = asyncio.Event()
            store.update(QUEUE, 1)
            first = asyncio.create_task(store.persist([QUEUE]))
            await asyncio.sleep(0)
            store.update(QUEUE, 2)
            second = asyncio.create_task(store.persist([QUEUE], wait=True))
            done, _ = await asyncio.wait([first, second], timeout=0.1)
            assert not done
            gate.set()
            await asyncio.gather(first, second)
            assert broker.offsets[KEY] == 2

    run(main())


def test_first_offset_of_a_topic_is_stored_alone_and_the_others_then_together() -> None:
    async def main() -> None:
        async with storing() as (broker, store):
            # None is held: only the test stores their offsets.
            queues = [MessageQueue("T", "broker-a", 10 + number) for number in range(4)]
            for number, queue in enumerate(queues):
                store.update(queue, 10 + number)
                broker.may_store[str(10 + number)] = asyncio.Event()
            # One task for each, as when several queues are released at once.
            tasks = [asyncio.create_task(store.persist([queue], wait=True)) for queue in queues]
            await eventually(lambda: broker.asked, "the first has come")
            await asyncio.wait(tasks, timeout=0.1)
            assert broker.asked == ["10"]

            # It fails: another one is the first, alone again.
            broker.errors[RequestCode.UPDATE_CONSUMER_OFFSET] = [1]
            broker.may_store["10"].set()
            with pytest.raises(BrokerError):
                await tasks[0]
            await eventually(lambda: len(broker.asked) == 2, "the second has come")
            await asyncio.wait(tasks[1:], timeout=0.1)
            assert broker.asked == ["10", "11"]

            # It is stored: all the others follow at once, including the failed one.
            broker.may_store["11"].set()
            await eventually(lambda: sorted(broker.asked) == ["10", "11", "12", "13"], "the others have come")
            assert not tasks[2].done()
            assert not tasks[3].done()
            for gate in broker.may_store.values():
                gate.set()
            await asyncio.gather(*tasks[1:], store.persist([queues[0]], wait=True))
            assert broker.offsets == {("g", "T", number): number for number in range(10, 14)}

    run(main())


def test_another_topic_has_a_first_offset_of_its_own() -> None:
    async def main() -> None:
        async with storing() as (broker, store):
            queues = [MessageQueue(topic, "broker-a", number) for topic in ("T", "U") for number in (10, 11)]
            for number, queue in enumerate(queues):
                store.update(queue, 10 + number)
                broker.may_store[str(10 + number)] = asyncio.Event()
            persisting = asyncio.create_task(store.persist(queues, wait=True))
            await eventually(lambda: len(broker.asked) == 2, "the first of each has come")
            await asyncio.wait([persisting], timeout=0.1)
            assert sorted(broker.asked) == ["10", "12"]
            for gate in broker.may_store.values():
                gate.set()
            await persisting
            assert len(broker.offsets) == 4

    run(main())


class BadStore(OffsetMemory):
    """A store of the program that fails where the test tells it to."""

    def __init__(self, *failing: str) -> None:
        super().__init__()
        self.failing = set(failing)
        self.kept: dict[MessageQueue, int] = {}

    def _fail(self, method: str) -> None:
        if method in self.failing:
            message = f"no {method} today"
            raise RuntimeError(message)

    async def load(self) -> None:
        self._fail("load")

    def update(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        self._fail("update")
        super().update(queue, offset, only_up=only_up)

    def memory(self, queue: MessageQueue) -> int | None:
        self._fail("memory")
        return super().memory(queue)

    async def stored(self, queue: MessageQueue) -> int | None:
        self._fail("stored")
        return self.kept.get(queue)

    async def persist(self, queues: Collection[MessageQueue], *, wait: bool = False) -> None:  # noqa: ARG002
        self._fail("persist")
        self.kept |= {queue: self._offsets[queue] for queue in queues if queue in self._offsets}

    def remove(self, queue: MessageQueue) -> None:
        self._fail("remove")
        super().remove(queue)

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        self._fail("offsets")
        return super().offsets(topic)


@pytest.mark.parametrize("orderly", [False, True])
def test_failing_offset_store_does_not_stop_delivery(orderly: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = BadStore("update", "memory", "persist", "remove", "offsets")
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            handled: list[bytes] = []
            consumer = PushConsumer(
                "g", cluster.name_server, start_from=StartFrom.FIRST, offset_store=store, orderly=orderly
            )
            consumer.subscribe("T", "*", lambda message: handled.append(message.body))
            async with consumer:
                for number in range(3):
                    broker.store("T", str(number).encode())
                    await eventually(lambda: len(handled) > number, "the message")  # noqa: B023
                assert consumer.offsets() == {}
                with pytest.raises(HeadraceError, match="no persist today") as failure:
                    await consumer.persist_offsets()
                assert isinstance(failure.value.__cause__, RuntimeError)
                store.failing.clear()
                broker.store("T", b"3")
                await eventually(lambda: QUEUE in store._offsets, "the store works again")
            assert store.kept[QUEUE] == 4

    with caplog.at_level(logging.INFO):
        run(main())
    assert "background task failed" not in caplog.text
    assert caplog.text.count("offset store failed method=update") == 1


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
def test_queue_starts_when_the_store_returns_its_offset(
    kind: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.consuming.lite_pull.lite_pull_fetch.BEGIN_AGAIN_S", 0.1)

    async def main() -> None:
        store = BadStore("stored")
        store.kept[QUEUE] = 1
        async with consuming_cluster("%RETRY%g") as (cluster, broker):
            broker.store("T", b"0", b"1")
            consumer = kind("g", cluster.name_server, offset_store=store)
            consumer.subscribe("T")
            async with consumer:
                await eventually(lambda: "no stored today" in caplog.text, "the store is asked")
                store.failing.clear()
                async for message in consumer:
                    assert message.body == b"1"
                    break

    with caplog.at_level(logging.INFO):
        run(main())
    assert "background task failed" not in caplog.text


def test_store_that_fails_to_load_prevents_the_start() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, _):
            with pytest.raises(RuntimeError, match="no load today"):
                await PullConsumer("g", cluster.name_server, offset_store=BadStore("load")).start()

    run(main())
