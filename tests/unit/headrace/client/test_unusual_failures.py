"""Unusual failures: they reach the caller concerned and leave nothing behind."""

import asyncio
import logging
import sys

import pytest

from headrace import (
    ClientConfig,
    ConfigError,
    ConnectError,
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SendContext,
    SendHook,
    StartFrom,
    StateError,
    TransactionProducer,
    TransactionState,
)
from headrace.client.cluster import name_servers
from headrace.client.cluster.instance import _instances
from headrace.client.cluster.routes import publish_queues
from headrace.errors import RemoteProtocolError
from headrace.protocol.bodies import TopicRouteData
from headrace.protocol.remoting_command import create_request
from headrace.remoting.client import RemotingClient
from support.consuming import eventually
from support.consuming_broker import consuming_cluster
from support.loops import LOOPS, run_on
from support.sdk import run
from support.sdk_cluster import Cluster


def test_error_of_forbid_reaches_all_sends_of_the_batch() -> None:
    class Closed(SendHook):
        def forbid(self, context: SendContext) -> None:
            raise PermissionError(f"no more to {context.topic}")

    async def main() -> None:
        async with (
            Cluster("a") as cluster,
            Producer("g", cluster.name_server, linger=0.01, hooks=[Closed()]) as producer,
        ):
            sends = [producer.send(Message("T", b"x")) for _ in range(3)]
            results = await asyncio.gather(*sends, return_exceptions=True)
            assert [str(result) for result in results] == ["no more to T"] * 3

    run(main())


def test_polls_without_a_message_leave_nothing_behind() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, _):
            lite = LitePullConsumer("g", cluster.name_server)
            lite.subscribe("T")
            async with lite:
                for _ in range(20):
                    assert await lite.poll(0.001) == []
                assert lite._fetches is not None
                assert not lite._fetches._pollers

            push = PushConsumer("g2", cluster.name_server)
            push.subscribe("T")
            async with push:
                messages = aiter(push)
                for _ in range(20):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(anext(messages), 0.001)
                assert not messages._handout._takers

    run(main())


def test_instance_that_failed_to_start_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_url: str) -> str:
        raise RuntimeError("out of order")

    async def main() -> None:
        async with Cluster("a") as cluster:
            config = ClientConfig("http://127.0.0.1:1/nsaddr", instance_name="shared")
            monkeypatch.setattr(name_servers, "_fetch", fail)
            with pytest.raises(RuntimeError, match="out of order"):
                await Producer("g", config).start()
            assert not _instances.get(asyncio.get_running_loop())
            monkeypatch.setattr(name_servers, "_fetch", lambda _url: cluster.name_server)
            async with Producer("g", config) as producer:
                assert (await producer.send(Message("T", b"x"))).ok

    run(main())


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer, PullConsumer])
def test_member_that_fails_to_start_leaves_nothing_in_a_shared_instance(
    kind: type[PushConsumer | LitePullConsumer | PullConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise ConfigError("refused", "expression")

    async def main() -> None:
        async with Cluster("a") as cluster:
            config = ClientConfig(cluster.name_server, instance_name="shared")

            def member() -> PushConsumer | LitePullConsumer | PullConsumer:
                made = kind("g", config)
                if not isinstance(made, PullConsumer):
                    made.subscribe("T")
                return made

            # Lite pull consumers have an instance of another kind: a member of another group keeps it open.
            other = kind("other", config)
            if not isinstance(other, PullConsumer):
                other.subscribe("T")
            async with other:
                listeners = other._instance.routes._listeners
                before = len(listeners)
                with monkeypatch.context() as patch:
                    patch.setattr(kind, "_introduce", refuse)
                    with pytest.raises(ConfigError):
                        await member().start()
                assert len(listeners) == before
                async with member():
                    assert len(listeners) == before + 1
                    with pytest.raises(StateError, match="has a member"):
                        await member().start()
                    assert len(listeners) == before + 1

    run(main())


def test_lookup_without_http_answer_keeps_the_name_server_list(caplog: pytest.LogCaptureFixture) -> None:
    def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-something\r\n\r\n")
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            known = name_servers.NameServers(RemotingClient(), [f"http://127.0.0.1:{port}/nsaddr"])
            assert not await known.look_up()

    run(main())
    assert "name server list not fetched" in caplog.text


def test_invalid_order_configuration_is_a_protocol_error() -> None:
    assert len(publish_queues("T", TopicRouteData(order_topic_conf="a:2;b:1"))) == 3
    with pytest.raises(RemoteProtocolError, match="the order configuration of T"):
        publish_queues("T", TopicRouteData(order_topic_conf="a:many"))


@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_connecting_to_an_invalid_host_name_is_a_connect_error(loop: str) -> None:
    async def main() -> None:
        client = RemotingClient()
        with pytest.raises(ConnectError, match="cannot connect"):
            await client.request("a..b:9876", create_request(1), 5000)
        await client.close()

    run_on(loop, main())


def test_ending_a_transaction_after_its_producer_was_closed_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            async with TransactionProducer("g", cluster.name_server, check=lambda _: None) as producer:
                half, result = await producer.send_half(Message("T", b"x"))
            await producer.end_half(half, result, TransactionState.COMMIT)

    with caplog.at_level(logging.WARNING):
        run(main())
    assert "end-transaction request not sent" in caplog.text


def test_handler_that_calls_exit_ends_neither_its_worker_nor_later_messages() -> None:
    async def main() -> None:
        async with consuming_cluster() as (cluster, broker):
            handled: list[bytes] = []

            def handle(message: ReceivedMessage) -> None:
                if message.body == b"0":
                    sys.exit("enough")
                handled.append(message.body)

            broker.store("T", b"0", b"1", b"2")
            consumer = PushConsumer("g", cluster.name_server, start_from=StartFrom.FIRST, workers=1)
            consumer.subscribe("T", "*", handle)
            async with consumer:
                await eventually(lambda: handled == [b"1", b"2"], "the messages behind it")

    run(main())
