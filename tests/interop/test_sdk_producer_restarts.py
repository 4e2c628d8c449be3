"""Brokers killed and restarted under a Python producer: no acknowledged message is lost, and the producer recovers."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import Admin, ClientConfig, HeadraceError, Message, Producer
from support.appliance import Appliance
from support.loops import until
from support.reference import Reference
from support.sdk import await_registered, dump, eventually, run
from support.servers import Server

MAKERS: dict[str, Callable[[Path, tuple[int, int] | None], Server]] = {
    "reference": lambda data, ports: Reference(data, ports=ports),
    "headrace": lambda data, ports: Appliance(data, ports=ports),
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("maker", MAKERS)
def test_no_acknowledged_message_is_lost_when_servers_are_killed_and_restarted(maker: str, tmp_path: Path) -> None:
    server = MAKERS[maker](tmp_path / "data", None)
    ports: tuple[int, int] = server.ports  # type: ignore[attr-defined]
    acknowledged: dict[str, bytes] = {}
    failures: list[HeadraceError] = []
    is_over = asyncio.Event()

    async def send(producer: Producer, name: str) -> None:
        number = 0
        while not is_over.is_set():
            body = f"{name}-{number}".encode()
            number += 1
            try:
                acknowledged[(await producer.send(Message("Trouble", body))).message_id] = body
            except HeadraceError as error:
                failures.append(error)
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.002)

    async def main() -> None:
        nonlocal server
        config = ClientConfig(server.name_server, poll_name_server=1, heartbeat=1)
        async with (
            Producer("trouble", config) as producer,
            Admin(ClientConfig(server.name_server, api_timeout=60)) as admin,
        ):
            senders = [asyncio.create_task(send(producer, f"sender{at}")) for at in range(4)]

            async def more(count: int) -> bool:
                return len(acknowledged) >= count

            await eventually(lambda: more(200), "200 messages are acknowledged", 90)
            await asyncio.to_thread(server.kill)
            await until(lambda: failures)
            server = await asyncio.to_thread(MAKERS[maker], tmp_path / "data", ports)
            before = len(acknowledged)
            await eventually(lambda: more(before + 200), "200 more are acknowledged", 90)
            is_over.set()
            await asyncio.gather(*senders)
            stored = {
                message.message_id: message.body for message in await dump(admin, "Trouble", len(acknowledged), 90)
            }
            lost = [body for message_id, body in acknowledged.items() if stored.get(message_id) != body]
            assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged messages are lost, such as {lost[:3]}"

            async def known() -> bool:
                try:
                    connected = await admin.producer_connection("trouble", "Trouble")
                except HeadraceError:
                    return False
                return bool(connected.connection_set)

            await eventually(known, "the new broker knows the producer", 90)

    try:
        await_registered(server.name_server)
        run(main(), 280)
    finally:
        server.stop()
