from pathlib import Path
from typing import Any

import pytest

from headrace.protocol import fastjson
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from headrace.remoting import RemotingClient
from nameserver.config import NameServerConfig
from nameserver.daemon import NameServer
from support.loops import LOOPS, run_on, until


@pytest.fixture(params=sorted(LOOPS))
def loop(request: pytest.FixtureRequest) -> Any:
    return request.param


def registration(name: str = "broker-a", id_: int = 0, topic: str = "T") -> RemotingCommand:
    body = {
        "filterServerList": [],
        "topicConfigSerializeWrapper": {
            "dataVersion": {"counter": 1, "timestamp": 1},
            "topicConfigTable": {topic: {"topicName": topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}},
        },
    }
    ext = {
        "brokerName": name,
        "brokerAddr": f"{name}:{10911 + id_}",
        "clusterName": "C",
        "haServerAddr": f"{name}:{20911 + id_}",
        "brokerId": str(id_),
    }
    return create_request(RequestCode.REGISTER_BROKER, ext, fastjson.dumps(body).encode())


def test_silent_broker_is_dropped_and_its_connection_closed(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        config = NameServerConfig(scan_not_active_broker_interval=20, broker_channel_expired_time=300)
        name_server = NameServer(config, tmp_path)
        now_ms = 0
        name_server.routes._clock_ms = lambda: now_ms
        address = f"127.0.0.1:{await name_server.listen('127.0.0.1', 0)}"
        silent, busy = RemotingClient(), RemotingClient()
        assert (await silent.request(address, registration("silent"), 60_000)).code == 0
        assert (await busy.request(address, registration("busy"), 60_000)).code == 0
        now_ms = 200
        assert (await busy.request(address, registration("busy"), 60_000)).code == 0
        assert set(name_server.routes.brokers()) == {"silent", "busy"}
        now_ms = 400
        await until(lambda: "silent" not in name_server.routes.brokers())
        await until(lambda: not silent.is_connected(address))
        assert list(name_server.routes.brokers()) == ["busy"]
        assert busy.is_connected(address)
        await silent.close()
        await busy.close()
        await name_server.stop()

    run_on(loop, main())


def test_broker_is_removed_when_its_connection_closes(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        name_server = NameServer(NameServerConfig(), tmp_path)
        address = f"127.0.0.1:{await name_server.listen('127.0.0.1', 0)}"
        broker, client = RemotingClient(), RemotingClient()
        await broker.request(address, registration(), 60_000)
        route = create_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        assert (await client.request(address, route, 60_000)).code == 0
        await broker.close()
        await until(lambda: not name_server.routes.topics())
        assert (await client.request(address, route, 60_000)).code == 17
        await client.close()
        await name_server.stop()

    run_on(loop, main())


def test_reconnected_broker_survives_the_end_of_its_old_connection(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        name_server = NameServer(NameServerConfig(), tmp_path)
        address = f"127.0.0.1:{await name_server.listen('127.0.0.1', 0)}"
        old, new = RemotingClient(), RemotingClient()
        await old.request(address, registration(), 60_000)
        await new.request(address, registration(), 60_000)
        await old.close()
        await until(lambda: len(name_server.server.connections) == 1)
        assert name_server.routes.topics() == ["T"]
        await new.close()
        await until(lambda: not name_server.routes.topics())
        await name_server.stop()

    run_on(loop, main())


def test_name_servers_are_independent_of_each_other(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        both = [NameServer(NameServerConfig(), tmp_path / name) for name in ("one", "two")]
        addresses = [f"127.0.0.1:{await each.listen('127.0.0.1', 0)}" for each in both]
        broker = RemotingClient()
        for address in addresses:
            await broker.request(address, registration(), 60_000)
        put = create_request(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"})
        await broker.request(addresses[0], put, 60_000)
        get = create_request(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
        assert [(await broker.request(address, get, 60_000)).code for address in addresses] == [0, 22]
        assert [each.routes.topics() for each in both] == [["T"], ["T"]]
        await both[0].stop()
        assert both[1].routes.topics() == ["T"]
        await broker.close()
        await both[1].stop()

    run_on(loop, main())
