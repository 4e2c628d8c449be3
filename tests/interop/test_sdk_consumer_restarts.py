"""Servers killed and restarted under Python consumers: every acknowledged message is consumed; consumers recover."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import ClientConfig, HeadraceError, LitePullConsumer, Message, Producer, PushConsumer, StartFrom
from support.appliance import Appliance
from support.consuming import create_topic, eventually
from support.reference import Reference
from support.sdk import run
from support.servers import Server

MAKERS: dict[str, Callable[[Path, tuple[int, int] | None], Server]] = {
    "reference": lambda data, ports: Reference(data, ports=ports),
    "headrace": lambda data, ports: Appliance(data, ports=ports),
}


PULLS_FAILED = {"headrace.client.consuming.queue_pull", "headrace.client.consuming.lite_pull.lite_pull_fetch"}
"""The loggers of failed pulls, of push and of lite pull consumers."""


def failed_pulls(caplog: pytest.LogCaptureFixture) -> set[str]:
    return {record.name for record in caplog.records if record.getMessage().startswith("pull failed")}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("maker", MAKERS)
def test_all_kinds_of_consumers_continue_after_servers_are_killed_and_restarted(
    maker: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = MAKERS[maker](tmp_path / "data", None)
    ports: tuple[int, int] = server.ports  # type: ignore[attr-defined]
    acknowledged: set[bytes] = set()
    consumed: dict[str, set[bytes]] = {kind: set() for kind in ("concurrent", "orderly", "lite")}
    is_over = asyncio.Event()

    def enough(count: int) -> bool:
        return all(len(bodies) >= count for bodies in consumed.values())

    async def send(producer: Producer) -> None:
        number = 0
        while not is_over.is_set():
            body = str(number).encode()
            number += 1
            try:
                await producer.send(Message("Trouble", body))
                acknowledged.add(body)
            except HeadraceError:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.005)

    async def poll(consumer: LitePullConsumer) -> None:
        async for message in consumer:
            consumed["lite"].add(message.body)

    def push(kind: str, config: ClientConfig) -> PushConsumer:
        consumer = PushConsumer(f"trouble-{kind}", config, start_from=StartFrom.FIRST, orderly=kind == "orderly")
        consumer.subscribe("Trouble", "*", lambda message: consumed[kind].add(message.body))
        return consumer

    async def main() -> None:
        nonlocal server
        await create_topic(server, "Trouble", 4)
        config = ClientConfig(server.name_server, poll_name_server=1, heartbeat=1, persist_offsets=0.5)
        lite = LitePullConsumer("trouble-lite", config, start_from=StartFrom.FIRST)
        lite.subscribe("Trouble")
        async with Producer("trouble", config) as producer, push("concurrent", config), push("orderly", config), lite:
            tasks = [asyncio.create_task(send(producer)), asyncio.create_task(poll(lite))]
            await eventually(lambda: enough(100), "100 messages are consumed", 90)
            await asyncio.to_thread(server.kill)
            await eventually(lambda: failed_pulls(caplog) >= PULLS_FAILED, "pulls fail")
            server = await asyncio.to_thread(MAKERS[maker], tmp_path / "data", ports)
            before = len(acknowledged)
            await eventually(lambda: len(acknowledged) >= before + 100, "100 more are sent", 90)
            is_over.set()
            await tasks[0]
            await eventually(
                lambda: all(acknowledged <= bodies for bodies in consumed.values()), "all are consumed", 90
            )
        await tasks[1]

    try:
        run(main(), 280)
    finally:
        server.stop()
