import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.errors import ConnectError, RequestTimeout, SendRequestError, StateError
from headrace.protocol.remoting_command import RemotingCommand, create_request, response_to
from headrace.remoting import Connection, HandlerTable, RemotingClient, RemotingServer
from support.loops import LOOPS, run_on, until

ECHO, SILENT, ASK_BACK, HANG_UP = 1001, 1002, 1003, 1004


@pytest.fixture(params=sorted(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[Any]], Any]:
    return lambda main: run_on(request.param, main)


class Service:
    """A server on a free port, with what it was asked one-way."""

    def __init__(self) -> None:
        self.table = HandlerTable()
        self.oneways: list[RemotingCommand] = []
        self.table.register(ECHO, lambda _, command: response_to(command, 0, ext=command.ext_fields, body=command.body))
        self.table.register(SILENT, lambda _, command: self.oneways.append(command))
        self.table.register(ASK_BACK, self.ask_back)
        self.table.register(HANG_UP, lambda connection, _: connection.close("as asked"))

    async def ask_back(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        answer = await connection.request(create_request(221), 60_000)
        return response_to(command, 0, body=answer.body)

    async def __aenter__(self) -> "Service":
        self.server = RemotingServer(self.table)
        self.port = await self.server.listen("127.0.0.1", 0)
        self.address = f"127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop(1)


def test_many_requests_share_one_connection(run: Any) -> None:
    async def main() -> None:
        async with Service() as service:
            client = RemotingClient()
            requests = [create_request(ECHO, body=str(number).encode()) for number in range(100)]
            answers = await asyncio.gather(*(client.request(service.address, each, 60_000) for each in requests))
            assert [answer.body for answer in answers] == [request.body for request in requests]
            assert len(service.server.connections) == 1
            await client.close()
            await until(lambda: not service.server.connections)

    run(main())


def test_lost_connection_fails_pending_requests_and_the_next_request_reconnects(run: Any) -> None:
    async def main() -> None:
        async with Service() as service:
            client = RemotingClient()
            with pytest.raises(SendRequestError) as caught:
                await client.request(service.address, create_request(HANG_UP), 60_000)
            assert caught.value.address == service.address
            assert caught.value.retryable
            assert not client.is_connected(service.address)
            assert (await client.request(service.address, create_request(ECHO), 60_000)).code == 0
            assert client.is_connected(service.address)
            await client.close()

    run(main())


def test_refused_connection_is_a_connect_error_for_all_waiting_requests(run: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"

        async def main() -> None:
            client = RemotingClient()
            results = await asyncio.gather(
                *(client.request(address, create_request(ECHO), 60_000) for _ in range(3)), return_exceptions=True
            )
            assert all(isinstance(result, ConnectError) and result.address == address for result in results)
            await client.close()

        run(main())


def test_request_does_not_fail_with_the_error_of_an_earlier_connection_attempt(run: Any) -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            client = RemotingClient()
            early = asyncio.create_task(client.oneway(address, create_request(SILENT)))
            while address not in client._connecting:  # noqa: ASYNC110 - a condition has no event
                await asyncio.sleep(0)  # it must have begun, and not ended
            client._connecting[address].add_done_callback(lambda _: taken.listen())
            await client.oneway(address, create_request(SILENT))
            with pytest.raises(ConnectError):
                await early
            await client.close()

    run(main())


@pytest.mark.parametrize("address", ["nonsense", "host:port", ""])
def test_invalid_address_is_a_connect_error(run: Any, address: str) -> None:
    async def main() -> None:
        client = RemotingClient()
        with pytest.raises(ConnectError):
            await client.request(address, create_request(ECHO), 1000)
        await client.close()

    run(main())


def test_missing_answer_is_a_timeout_and_a_silent_connection_is_closed(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        async with Service() as service:
            client = RemotingClient()
            await client.oneway(service.address, create_request(SILENT))  # it is not the connecting that takes the time
            with pytest.raises(RequestTimeout) as caught:
                await client.request(service.address, create_request(SILENT), 40)
            assert caught.value.timeout is not None
            assert caught.value.retryable
            assert not client.is_connected(service.address)
            await client.close()

    run(main())
    assert "no data received within 40 ms" in caplog.text


def test_timeout_keeps_a_connection_that_answers_other_requests(run: Any) -> None:
    async def main() -> None:
        async with Service() as service:
            client = RemotingClient()
            await client.request(service.address, create_request(ECHO), 60_000)
            slow = asyncio.ensure_future(client.request(service.address, create_request(SILENT), 1000))
            while not slow.done():
                await client.request(service.address, create_request(ECHO), 60_000)
            assert isinstance(slow.exception(), RequestTimeout)
            assert client.is_connected(service.address)
            await client.close()

    run(main())


def test_connecting_ends_at_its_timeout(run: Any) -> None:
    # A backlog of one that is full: the kernel lets further connections wait.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        with socket.socket() as first, socket.socket() as second:
            for each in (first, second):
                each.setblocking(False)
                each.connect_ex(address)

            async def main() -> None:
                client = RemotingClient(connect_timeout_s=0.05)
                with pytest.raises(ConnectError, match=r"within 0\.05 s"):
                    await client.request(f"127.0.0.1:{address[1]}", create_request(ECHO), 60_000)
                patient = RemotingClient()
                with pytest.raises(RequestTimeout):
                    await patient.request(f"127.0.0.1:{address[1]}", create_request(ECHO), 50)
                await client.close()
                await patient.close()

            run(main())


def test_time_of_a_busy_loop_does_not_count_against_the_connect_timeout(run: Any) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = RemotingClient(connect_timeout_s=0.1)
            connecting = asyncio.ensure_future(
                client.oneway(f"127.0.0.1:{listener.getsockname()[1]}", create_request(ECHO))
            )
            asyncio.get_running_loop().call_soon(time.sleep, 0.3)
            await connecting
            await client.close()

    run(main())


def test_server_can_send_requests_over_the_same_connection(run: Any) -> None:
    table = HandlerTable()
    table.register(221, lambda _, command: response_to(command, 0, body=b"from the client"))

    async def main() -> None:
        async with Service() as service:
            client = RemotingClient(table)
            assert (await client.request(service.address, create_request(ASK_BACK), 60_000)).body == b"from the client"
            await client.close()
            client = RemotingClient()
            assert (await client.request(service.address, create_request(ASK_BACK), 60_000)).code == 0
            await client.close()

    run(main())


def test_oneway_request_is_marked_and_hook_sees_requests_before_they_are_sent(run: Any) -> None:
    signed: list[str] = []

    def sign(address: str, command: RemotingCommand) -> None:
        command.ext_fields = {"Signature": address}
        signed.append(address)

    async def main() -> None:
        async with Service() as service:
            client = RemotingClient(before_request=sign)
            await client.oneway(service.address, create_request(SILENT))
            answer = await client.request(service.address, create_request(ECHO), 60_000)
            assert answer.ext == {"Signature": service.address}
            assert service.oneways[0].is_oneway
            assert signed == [service.address] * 2
            await client.close()

    run(main())


def test_cancelling_a_request_leaves_nothing_behind_and_affects_no_other(run: Any) -> None:
    async def main() -> None:
        async with Service() as service:
            client = RemotingClient()
            first = asyncio.ensure_future(client.request(service.address, create_request(ECHO), 60_000))
            second = asyncio.ensure_future(client.request(service.address, create_request(ECHO), 60_000))
            await asyncio.sleep(0)
            first.cancel()  # while it connects
            assert (await second).code == 0
            third = asyncio.ensure_future(client.request(service.address, create_request(SILENT), 60_000))
            await until(lambda: service.oneways)
            third.cancel()
            with pytest.raises(asyncio.CancelledError):
                await third
            assert client._endpoint is not None
            assert len(client._endpoint.deadlines) == 0
            await client.close()

    run(main())


def test_closed_client_fails_pending_requests_and_refuses_new_ones(run: Any) -> None:
    async def main() -> None:
        async with Service() as service:
            client = RemotingClient()
            waiting = asyncio.ensure_future(client.request(service.address, create_request(SILENT), 60_000))
            await until(lambda: service.oneways)
            await client.close()
            await client.close()
            with pytest.raises(SendRequestError):
                await waiting
            with pytest.raises(StateError):
                await client.request(service.address, create_request(ECHO), 60_000)

    run(main())


def test_closing_while_connecting_fails_waiting_requests(run: Any) -> None:
    async def main() -> None:
        async with Service() as service:
            client = RemotingClient()
            waiting = asyncio.ensure_future(client.request(service.address, create_request(ECHO), 60_000))
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(StateError):
                await waiting

    run(main())
