"""ClientInstance: what clients of one instance share, and their requests from and to brokers."""

import asyncio
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headrace import ClientConfig, ClientEvent, ConnectError, EventKind, Message, Producer, RouteNotFound, StateError
from headrace.client.cluster.instance import ClientInstance
from headrace.client.cluster.routes import Route
from headrace.model import ConsumeFromWhere, ConsumeType, MessageExt, MessageModel, MessageQueue, SubscriptionData
from headrace.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumeResult,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    ResetOffsetBody,
)
from headrace.protocol.record import encode_record
from headrace.protocol.request_code import RequestCode
from support.loops import until
from support.sdk import run
from support.sdk_cluster import Cluster
from support.servers import free_port

QUEUE = MessageQueue("T", "a", 0)


class Consumer:
    """A consumer that records the calls of its instance."""

    group = "cg"

    def __init__(self) -> None:
        self.rebalances = 0
        self.persisted = 0
        self.reset: dict[MessageQueue, int] = {}

    def subscribed_topics(self) -> list[str]:
        return ["T"]

    def heartbeat(self) -> ConsumerData:
        return ConsumerData(
            self.group,
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            [SubscriptionData.build("T", sub_version=1)],
        )

    def rebalance_soon(self) -> None:
        self.rebalances += 1

    async def persist_offsets(self) -> None:
        self.persisted += 1

    async def reset_offsets(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        assert topic == "T"
        self.reset = offsets

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        return {QUEUE: 5} if topic == "T" else {}

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        return ConsumerRunningInfo({"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"}, jstack="stacks" if with_stacks else None)

    async def consume_directly(self, message: MessageExt, broker_name: str | None) -> ConsumeMessageDirectlyResult:
        return ConsumeMessageDirectlyResult(
            consume_result=ConsumeResult.CR_SUCCESS, remark=f"{broker_name} {message.topic}"
        )


def test_heartbeats_register_all_groups_and_closing_unregisters_them() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            broker = cluster.brokers["a"]
            async with Producer("pg", cluster.name_server) as producer:
                await until(lambda: broker.heartbeats)
                beat = broker.heartbeats[-1]
                assert beat.client_id == producer.client_id
                assert {one.group_name for one in beat.producer_data_set} == {"pg", "CLIENT_INNER_PRODUCER"}
                assert beat.consumer_data_set == []
            (left,) = broker.others
            assert left.code == RequestCode.UNREGISTER_CLIENT
            assert left.ext == {"clientID": beat.client_id, "producerGroup": "pg"}

    run(main())


def test_each_client_has_its_own_id_unless_instance_name_is_given() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            async with Producer("g", cluster.name_server) as one, Producer("g", cluster.name_server) as two:
                assert one.client_id != two.client_id
                assert one.client_id.split("@")[1].startswith(f"{os.getpid()}#")
            named = ClientConfig(cluster.name_server, instance_name="named", client_ip="1.2.3.4", unit_name="u")
            async with Producer("g", named) as one, Producer("h", named) as two:
                assert one.client_id == two.client_id == "1.2.3.4@named@u"
                with pytest.raises(StateError, match="instance_name"):
                    await Producer("g", named).start()
                await until(
                    lambda: (
                        len(cluster.brokers["a"].heartbeats[-1:])
                        and len(cluster.brokers["a"].heartbeats[-1].producer_data_set) == 3
                    )
                )
                await one.close()
                assert (await two.send(Message("T", b"x"))).ok, "the other goes on"

    run(main())


def test_lost_connection_causes_a_heartbeat_and_an_event() -> None:
    async def main() -> None:
        events: list[ClientEvent] = []
        cluster = Cluster("a")
        broker = cluster.brokers["a"]
        broker.port = free_port()
        async with cluster:
            config = ClientConfig(cluster.name_server, on_event=events.append)
            async with Producer("g", config) as producer:
                await producer.send(Message("T", b"x"))
                await until(lambda: broker.heartbeats)
                count = len(broker.heartbeats)
                await broker.stop()
                await broker.start()
                await until(lambda: len(broker.heartbeats) > count)
            kinds = [event.kind for event in events]
            assert kinds[0] == EventKind.STARTED
            assert kinds[-1] == EventKind.CLOSED
            assert EventKind.DISCONNECTED in kinds
            assert EventKind.ROUTE_CHANGED in kinds

    run(main())


def test_broker_requests_are_handled_by_the_member_of_the_group() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            broker, consumer = cluster.brokers["a"], Consumer()
            instance = await ClientInstance.open(ClientConfig(cluster.name_server))
            instance.register_consumer(consumer)
            with pytest.raises(StateError):
                instance.register_consumer(Consumer())
            await instance.routes.find("T")
            await instance.send_heartbeat()
            (beat,) = broker.heartbeats
            assert beat.consumer_data_set == [consumer.heartbeat()]

            broker.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "whichever"})
            await until(lambda: consumer.rebalances == 1)
            reset = {"topic": "T", "group": "cg", "timestamp": "-1", "isForce": "true"}
            broker.push(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, reset, ResetOffsetBody({QUEUE: 7}).encode())
            await until(lambda: consumer.reset == {QUEUE: 7})
            status = await broker.ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "cg"})
            assert GetConsumerStatusBody.decode(status.body).message_queue_table == {QUEUE: 5}
            told = await broker.ask(
                RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "cg", "clientId": "c", "jstackEnable": "true"}
            )
            assert ConsumerRunningInfo.decode(told.body).jstack == "stacks"
            record = encode_record(topic="T", body=b"x")
            consumed = await broker.ask(
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                {"consumerGroup": "cg", "clientId": "c", "brokerName": "a"},
                record,
            )
            assert ConsumeMessageDirectlyResult.decode(consumed.body).remark == "a T"
            unknown = await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "no", "clientId": "c"})
            assert unknown.code == 1
            assert (await broker.ask(9999, {})).code == 3

            await instance.unregister_consumer("cg")
            assert broker.others[-1].ext == {"clientID": instance.client_id, "consumerGroup": "cg"}
            await instance.close()
            with pytest.raises(StateError):
                await instance.send_heartbeat()

    run(main())


def test_routes_are_polled_and_listeners_called_on_change() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            instance = await ClientInstance.open(ClientConfig(cluster.name_server, poll_name_server=0.02))
            instance.register_consumer(Consumer())
            seen: list[int] = []
            stop = instance.routes.on_change(lambda route: seen.append(len(route.subscribe_queues)))
            await until(lambda: seen == [2])
            cluster.queues = 3
            await until(lambda: seen == [2, 3])
            stop()
            cluster.queues = 4
            await until(lambda: len(instance.routes.cached("T").subscribe_queues) == 4)  # type: ignore[union-attr]
            assert seen == [2, 3]
            cluster.topics.clear()
            asked = cluster.asked["T"]
            await until(lambda: cluster.asked["T"] > asked + 1)
            assert instance.routes.cached("T") is not None, "what was known stays"
            await instance.unregister_consumer("cg")
            await instance.close()

    run(main())


def test_requested_topics_leave_no_locks_behind() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            instance = await ClientInstance.open(ClientConfig(cluster.name_server))
            routes = instance.routes
            asked = [routes.find_to_publish("T", "TBW102", 4) for _ in range(10)]
            found = await asyncio.gather(*asked, *(routes.find(f"U{at}") for at in range(20)), return_exceptions=True)
            assert [type(one) for one in found] == [Route] * 10 + [RouteNotFound] * 20
            assert cluster.asked["T"] == 1, "the first asks for all"
            assert not routes._locks
            assert not routes._publish_locks
            await instance.close()

    run(main())


def test_using_a_client_after_a_fork_raises_state_error() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", cluster.name_server) as producer:
            await producer.send(Message("T", b"x"))
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    coroutine = producer.send(Message("T", b"x"))
                    coroutine.send(None)
                    said = "sent"
                except StateError as error:
                    said = str(error)
                except BaseException as error:  # noqa: BLE001 - the child only says what happened
                    said = repr(error)
                os.write(write, said.encode())
                os._exit(0)
            os.waitpid(pid, 0)  # noqa: ASYNC222 - the child does one thing and ends
            assert "before a fork" in os.read(read, 1000).decode()
            os.close(read)
            os.close(write)
            assert (await producer.send(Message("T", b"x"))).ok

    run(main())


def test_client_can_be_started_once_and_closed_repeatedly() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            producer = Producer("g", cluster.name_server)
            with pytest.raises(StateError, match="new"):
                await producer.send(Message("T", b"x"))
            await producer.start()
            with pytest.raises(StateError, match="running"):
                await producer.start()
            await asyncio.gather(producer.close(), producer.close())
            await producer.close()
            with pytest.raises(StateError, match="closed"):
                await producer.send(Message("T", b"x"))
            unused = Producer("g", cluster.name_server)
            await unused.close()
            with pytest.raises(StateError):
                await unused.start()

    run(main())


class _List(BaseHTTPRequestHandler):
    text = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.text.encode())

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


def test_name_server_list_can_be_fetched_over_http() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster:
            _List.text = f"{cluster.name_server};127.0.0.1:1\nanything after the first line"
            with HTTPServer(("127.0.0.1", 0), _List) as server:
                thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
                thread.start()
                url = f"http://127.0.0.1:{server.server_port}/rocketmq/nsaddr"
                async with Producer("g", url) as producer:
                    assert (await producer.send(Message("T", b"x"))).ok
                    assert set(producer._instance.name_servers.addresses) == {cluster.name_server, "127.0.0.1:1"}
                    _List.text = "no address"
                    assert not await producer._instance.name_servers.look_up()
                    assert len(producer._instance.name_servers.addresses) == 2, "what cannot be read changes nothing"
                server.shutdown()
                thread.join()
            await asyncio.get_running_loop().shutdown_default_executor()

    run(main())


def test_changed_name_server_list_takes_effect() -> None:
    async def main() -> None:
        async with Cluster("a") as cluster, Producer("g", "127.0.0.1:1") as producer:
            with pytest.raises(ConnectError):
                await producer.send(Message("T", b"x"))
            assert producer._instance.name_servers.replace([cluster.name_server])
            assert (await producer.send(Message("T", b"x"))).ok

    run(main())
