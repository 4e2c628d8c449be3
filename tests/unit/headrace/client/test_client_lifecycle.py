"""Clients that are closed or cancelled before they run leave nothing behind. Clients of one instance that are opened at once share its start."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headrace import (
    Admin,
    ClientConfig,
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    StateError,
    TransactionProducer,
)
from headrace import sync as headrace_sync
from headrace.client.cluster import name_servers
from headrace.client.cluster.instance import _instances
from headrace.client.cluster.lifecycle import ClientObject
from headrace.sync.engine import shared_engine
from support.loops import until
from support.sdk import run
from support.sdk_cluster import Cluster

PATIENCE_S = 60.0


def push(config: ClientConfig, group: str = "g", topic: str = "T") -> PushConsumer:
    consumer = PushConsumer(group, config, trace=True)
    consumer.subscribe(topic)
    return consumer


def lite(config: ClientConfig, group: str = "g", topic: str = "T") -> LitePullConsumer:
    consumer = LitePullConsumer(group, config)
    consumer.subscribe(topic)
    return consumer


def pulling(config: ClientConfig, group: str = "g", topic: str = "T") -> PullConsumer:
    consumer = PullConsumer(group, config)
    consumer.register_topic(topic)
    return consumer


CONSUMERS: list[Callable[..., ClientObject]] = [push, lite, pulling]
CLIENTS: list[Callable[[ClientConfig], ClientObject]] = [
    *CONSUMERS,
    Admin,
    lambda config: Producer("g", config, trace=True),
    lambda config: TransactionProducer("g", config, check=lambda _: None),
]


class SlowList:
    """An HTTP address of a name server list, which answers when the test allows it."""

    def __init__(self) -> None:
        self.asked = 0
        self.text = ""
        self.may_answer = threading.Event()
        slow = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                slow.asked += 1
                slow.may_answer.wait(PATIENCE_S)
                with contextlib.suppress(OSError):  # the client may have gone
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(slow.text.encode())

            def log_message(self, *_: object) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.url = f"http://127.0.0.1:{self._server.server_port}/rocketmq/nsaddr"

    @contextlib.contextmanager
    def served(self) -> Iterator["SlowList"]:
        """Serves it; at the end all waiting clients are answered."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.may_answer.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


@contextlib.asynccontextmanager
async def slow_list() -> AsyncIterator[tuple[Cluster, SlowList]]:
    """A cluster whose name servers are in a list that is fetched slowly."""
    async with Cluster("a") as cluster:
        with SlowList().served() as page:
            page.text = cluster.name_server
            yield cluster, page
        await asyncio.get_running_loop().shutdown_default_executor()


def assert_nothing_is_open() -> None:
    assert not _instances.get(asyncio.get_running_loop())


@pytest.mark.parametrize("client_of", CLIENTS)
def test_closing_a_starting_client_cancels_its_start(client_of: Callable[[ClientConfig], ClientObject]) -> None:
    async def main() -> None:
        async with slow_list() as (_, page):
            client = client_of(ClientConfig(page.url))
            starting = asyncio.create_task(client.start())
            await until(lambda: page.asked)
            await asyncio.gather(client.close(), client.close())
            assert not client.is_running
            assert_nothing_is_open()
            with pytest.raises(StateError, match="closed while it was starting"):
                await starting
            with pytest.raises(StateError):
                await client.start()
            await client.close()

    run(main())


@pytest.mark.parametrize("client_of", CLIENTS)
def test_closing_a_client_before_its_start_ran_cancels_it(client_of: Callable[[ClientConfig], ClientObject]) -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            client = client_of(ClientConfig(cluster.name_server))
            started, closed = await asyncio.gather(client.start(), client.close(), return_exceptions=True)
            assert isinstance(started, StateError)
            assert closed is None
            assert not client.is_running
            assert_nothing_is_open()

    run(main())


@pytest.mark.parametrize("client_of", CLIENTS)
def test_start_that_is_cancelled_leaves_nothing_behind(client_of: Callable[[ClientConfig], ClientObject]) -> None:
    async def main() -> None:
        async with slow_list() as (_, page):
            client = client_of(ClientConfig(page.url))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.start()
            assert_nothing_is_open()
            await client.close()
            with pytest.raises(StateError):
                await client.start()

    run(main())


@pytest.mark.parametrize("client_of", CLIENTS)
def test_cancelling_a_start_at_any_step_leaves_nothing_behind(
    client_of: Callable[[ClientConfig], ClientObject],
) -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            for steps in range(12):
                client = client_of(ClientConfig(cluster.name_server))
                starting = asyncio.create_task(client.start())
                for _ in range(steps):
                    await asyncio.sleep(0)
                if starting.cancel():
                    with pytest.raises(asyncio.CancelledError):
                        await starting
                else:
                    await client.close()
                assert not client.is_running
                assert_nothing_is_open()

    run(main())


@pytest.mark.parametrize("client_of", CONSUMERS)
def test_consumer_closed_while_it_starts_leaves_nothing_in_a_shared_instance(
    client_of: Callable[..., ClientObject],
) -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            cluster.topics.add("U")
            cluster.not_answered.add("U")
            config = ClientConfig(cluster.name_server, instance_name="shared", api_timeout=PATIENCE_S)
            async with client_of(config, "other") as other:
                instance: Any = other._instance
                listeners = len(instance.routes._listeners)

                consumer = client_of(config, "g", "U")
                starting = asyncio.create_task(consumer.start())
                await until(lambda: cluster.asked["U"] and "g" in instance._consumers)
                await consumer.close()
                with pytest.raises(StateError, match="closed while"):
                    await starting
                assert set(instance._consumers) == {"other"}
                assert len(instance.routes._listeners) == listeners
                of_each = Counter(task.get_name().split()[1] for task in instance._tasks)
                assert all(of_each[name] <= 1 for name in ("trace", "statistics", "rebalance", "topic")), of_each
                assert other.is_running

    run(main())


def test_rejected_consumer_leaves_no_trace_task_in_a_shared_instance() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            config = ClientConfig(cluster.name_server, instance_name="shared")
            async with push(config) as first:
                with pytest.raises(StateError, match="has a member"):
                    await push(config).start()
                tasks = [task.get_name() for task in first._instance._tasks]
                assert sum("trace" in name for name in tasks) == 1, tasks

    run(main())


def test_start_in_one_thread_is_cancelled_by_another() -> None:
    with SlowList().served() as page:
        producer = headrace_sync.Producer("g", page.url)
        said: list[BaseException] = []

        def start() -> None:
            try:
                producer.start()
            except StateError as error:
                said.append(error)

        thread = threading.Thread(target=start)
        thread.start()

        async def asked() -> None:
            await until(lambda: page.asked)

        shared_engine().run(asked())
        producer.close()
        thread.join(PATIENCE_S)
        assert len(said) == 1
        assert "closed while it was starting" in str(said[0])


def test_clients_of_one_instance_fetch_the_name_server_list_once() -> None:
    async def main() -> None:
        async with slow_list() as (cluster, page):
            config = ClientConfig(page.url, instance_name="shared")
            producers = [Producer(f"g{number}", config) for number in range(3)]
            starting = [asyncio.create_task(one.start()) for one in producers]
            await until(lambda: page.asked)
            done, _ = await asyncio.wait(starting, timeout=0.1)
            assert not done, "there is no name server yet"
            # The first caller gives up: the others still get it.
            starting[0].cancel()
            await asyncio.wait(starting[:1])
            page.may_answer.set()
            await asyncio.gather(*starting[1:])
            assert page.asked == 1
            for one in producers[1:]:
                assert one._instance.name_servers.addresses == (cluster.name_server,)
                assert (await one.send(Message("T", b"x"))).ok
            await asyncio.gather(*(one.close() for one in producers))
            assert_nothing_is_open()

    run(main())


def test_clients_of_one_instance_share_the_failure_of_their_start(monkeypatch: pytest.MonkeyPatch) -> None:
    may_fail = threading.Event()

    def fail(_url: str) -> str:
        may_fail.wait(PATIENCE_S)
        raise RuntimeError("out of order")

    async def main() -> None:
        async with Cluster("a") as cluster:
            config = ClientConfig("http://127.0.0.1:1/nsaddr", instance_name="shared")
            monkeypatch.setattr(name_servers, "_fetch", fail)
            starting = [asyncio.create_task(Producer(f"g{number}", config).start()) for number in range(3)]
            await asyncio.wait(starting, timeout=0.1)
            may_fail.set()
            results = await asyncio.gather(*starting, return_exceptions=True)
            assert [str(result) for result in results] == ["out of order"] * 3
            assert_nothing_is_open()
            monkeypatch.setattr(name_servers, "_fetch", lambda _url: cluster.name_server)
            async with Producer("g", config) as producer:
                assert (await producer.send(Message("T", b"x"))).ok
            await asyncio.get_running_loop().shutdown_default_executor()

    run(main())
