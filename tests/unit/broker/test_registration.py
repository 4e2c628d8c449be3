"""Registration: what name servers are told, when, and that one of them that is down keeps nobody from the others."""

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import broker.registration
from broker.config import BrokerConfig
from broker.json_file import JsonFile
from broker.registration import Registration
from broker.topics.topics import TopicTable
from headrace.errors import ConnectError
from headrace.model.topic_config import TopicConfig
from headrace.protocol import fastjson
from headrace.protocol.bodies.register_broker import RegisterBrokerBody
from headrace.protocol.headers.name_server import RegisterBrokerRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.server import RemotingServer
from support import golden
from support.servers import free_port

Answer = Callable[[RemotingCommand], RemotingCommand]


def well(command: RemotingCommand) -> RemotingCommand:
    return response_to(command, ResponseCode.SUCCESS, ext={})


@dataclass
class NameServers:
    """Stands for the client and all name servers behind it: remembers what each was sent."""

    answers: dict[str, Answer] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    asked: list[tuple[str, RemotingCommand]] = field(default_factory=list)
    told: list[tuple[str, RemotingCommand]] = field(default_factory=list)
    is_closed: bool = False
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.heard.clear()
            await self.heard.wait()

    async def request(self, address: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        assert timeout_ms > 0
        await asyncio.sleep(0)
        if address in self.down:
            raise ConnectError(f"cannot connect to {address}", address)
        self.asked.append((address, command))
        self.heard.set()
        return self.answers.get(address, well)(command)

    async def oneway(self, address: str, command: RemotingCommand) -> None:
        await asyncio.sleep(0)
        if address in self.down:
            raise ConnectError(f"cannot connect to {address}", address)
        self.told.append((address, command))
        self.heard.set()

    async def close(self) -> None:
        self.is_closed = True

    def codes(self, address: str) -> list[int]:
        return [command.code for asked, command in self.asked if asked == address]

    def last_body(self) -> RegisterBrokerBody:
        sent = self.asked or self.told
        return RegisterBrokerBody.decode(sent[-1][1].body) if sent else RegisterBrokerBody()


@dataclass
class Setting:
    config: BrokerConfig
    topics: TopicTable
    servers: NameServers
    registration: Registration


def setting(tmp_path: Path, **options: Any) -> Setting:
    given = {"broker_name": "broker-a", "broker_ip1": "127.0.0.1", "listen_port": 21011, "namesrv_addr": "a:1;b:2"}
    config = BrokerConfig(**{**given, **options})
    topics = TopicTable(JsonFile(tmp_path / "topics.json"), config)
    servers = NameServers()
    return Setting(config, topics, servers, Registration(config, topics, (), servers))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_all_topics_are_registered_with_every_name_server_at_the_start(tmp_path: Path) -> None:
    here = setting(tmp_path)

    async def work() -> None:
        await here.registration.start()
        await here.registration.stop()

    run(work())
    assert here.servers.codes("a:1") == [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER]
    assert here.servers.codes("b:2") == here.servers.codes("a:1")
    assert here.servers.is_closed
    body = RegisterBrokerBody.decode(here.servers.asked[0][1].body)
    assert body.topic_config.topic_config_table == dict(here.topics.all())
    assert body.topic_config.data_version == here.topics.data_version


def test_registration_has_the_fields_and_the_body_of_apaches(tmp_path: Path) -> None:
    theirs = next(line for line in golden.frames("register") if line.get("code") == 103 and line["from"] == "broker")
    here = setting(tmp_path)
    run(here.registration.register())
    _, ours = here.servers.asked[0]
    assert ours.ext_fields is not None
    assert ours.ext_fields.keys() == theirs["extFields"].keys()
    same = ("brokerId", "clusterName", "brokerAddr", "haServerAddr", "compressed", "brokerName")
    assert {key: ours.ext_fields[key] for key in same} == {key: theirs["extFields"][key] for key in same}
    length, header = struct.unpack(">II", theirs["bytes"][:8])
    their_body = fastjson.loads(theirs["bytes"][8 + (header & 0xFFFFFF) : 4 + length])
    our_body = fastjson.loads(ours.body)
    assert our_body.keys() == their_body.keys()
    # The golden broker had its trace topic switched on.
    their_topics = their_body["topicConfigSerializeWrapper"]["topicConfigTable"]
    our_topics = our_body["topicConfigSerializeWrapper"]["topicConfigTable"]
    shared = their_topics.keys() - {"RMQ_SYS_TRACE_TOPIC"}
    assert {name: our_topics.get(name) for name in shared} == {name: their_topics[name] for name in shared}


def test_registration_body_has_a_crc(tmp_path: Path) -> None:
    import zlib  # noqa: PLC0415

    here = setting(tmp_path)
    run(here.registration.register())
    _, command = here.servers.asked[0]
    header = RegisterBrokerRequestHeader.from_ext(command.ext_fields)
    assert header.body_crc32 == zlib.crc32(command.body) & 0x7FFFFFFF


def test_compressed_registration_has_the_same_content(tmp_path: Path) -> None:
    here = setting(tmp_path, compressed_register=True)
    run(here.registration.register())
    _, command = here.servers.asked[0]
    assert RegisterBrokerRequestHeader.from_ext(command.ext_fields).compressed
    body = RegisterBrokerBody.decode_request(command.body, compressed=True)
    assert body.topic_config.topic_config_table.keys() == here.topics.all().keys()


def test_unreachable_name_server_does_not_delay_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    here = setting(tmp_path)
    here.servers.down.add("a:1")

    async def work() -> None:
        with caplog.at_level(logging.INFO, "broker.registration"):
            for _ in range(3):
                await here.registration.register()
            assert here.servers.codes("b:2") == [RequestCode.REGISTER_BROKER] * 3
            lines = [record.message for record in caplog.records]
            assert len([line for line in lines if "name_server=a:1" in line]) == 1
            assert len([line for line in lines if "name_server=b:2" in line]) == 1
            here.servers.down.clear()
            await here.registration.register()
            await here.registration.register()
        assert [record.message for record in caplog.records][2:] == [
            "broker registered name_server=a:1 address=127.0.0.1:21011"
        ]

    run(work())


def test_refusal_of_a_name_server_is_logged_with_its_remark(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    here = setting(tmp_path, namesrv_addr="a:1")
    here.servers.answers["a:1"] = lambda command: response_to(command, ResponseCode.SYSTEM_ERROR, "crc32 not match")
    run(here.registration.register())
    assert "crc32 not match" in caplog.text


def test_topic_created_by_a_send_is_registered_at_once_by_a_oneway_request(tmp_path: Path) -> None:
    here = setting(tmp_path)

    async def work() -> None:
        await here.registration.start()
        here.servers.asked.clear()
        for name in ("A", "B", "C"):
            here.topics.create_on_send(name, "TBW102", 4)
        await here.servers.wait_until(lambda: len(here.servers.told) == 2)

    run(work())
    assert not here.servers.asked
    assert sorted(address for address, _ in here.servers.told) == ["a:1", "b:2"]
    assert here.servers.last_body().topic_config.topic_config_table.keys() >= {"A", "B", "C", "TBW102"}


def test_topic_created_during_a_registration_is_registered_too(tmp_path: Path) -> None:
    here = setting(tmp_path)

    async def work() -> None:
        await here.registration.start()
        here.servers.asked.clear()
        here.topics.create_on_send("A", "TBW102", 4)
        await asyncio.sleep(0)
        here.topics.create_on_send("B", "TBW102", 4)
        await here.servers.wait_until(lambda: "B" in here.servers.last_body().topic_config.topic_config_table)

    run(work())


def test_nothing_is_registered_after_unregistering(tmp_path: Path) -> None:
    here = setting(tmp_path)

    async def work() -> None:
        await here.registration.start()
        await here.registration.stop()
        here.topics.create_on_send("A", "TBW102", 4)
        await asyncio.sleep(0)

    run(work())
    assert not here.servers.told


def test_changed_topic_is_registered_alone(tmp_path: Path) -> None:
    here = setting(tmp_path)
    here.topics.put(TopicConfig("T", 2, 3))

    async def work() -> None:
        await here.registration.register_topic("T")
        await here.registration.register_topic("Nowhere")

    run(work())
    assert len(here.servers.asked) == 2
    body = here.servers.last_body()
    assert body.topic_config.topic_config_table == {"T": TopicConfig("T", 2, 3)}
    assert body.topic_config.data_version == here.topics.data_version


def test_broker_permission_limits_registered_topic_permissions(tmp_path: Path) -> None:
    here = setting(tmp_path, broker_permission=4)
    run(here.registration.register())
    registered = here.servers.last_body().topic_config.topic_config_table
    assert {topic.permission for topic in registered.values()} == {4}
    found = here.topics.find("TBW102")
    assert found is not None
    assert found.permission == 7


def test_ordered_topics_are_read_from_the_name_servers_table(tmp_path: Path) -> None:
    here = setting(tmp_path)
    here.topics.put(TopicConfig("Ordered"))
    table = b'{"table":{"Ordered":"broker-a:4"}}'
    here.servers.answers["b:2"] = lambda command: response_to(command, ResponseCode.SUCCESS, ext={}, body=table)
    run(here.registration.register())
    assert [topic.name for topic in here.topics.all().values() if topic.order] == ["Ordered"]


def test_registration_of_one_topic_returns_the_ordered_topics_too(tmp_path: Path) -> None:
    here = setting(tmp_path)
    here.topics.put(TopicConfig("T"))
    here.servers.answers["a:1"] = lambda command: response_to(command, 0, ext={}, body=b'{"table":{"T":"broker-a:4"}}')
    run(here.registration.register_topic("T"))
    assert [topic.name for topic in here.topics.all().values() if topic.order] == ["T"]


def test_invalid_table_changes_nothing(tmp_path: Path) -> None:
    here = setting(tmp_path)
    here.servers.answers["a:1"] = lambda command: response_to(command, 0, ext={}, body=b'{"table":[')
    run(here.registration.register())
    assert here.topics.data_version.counter == 0


def test_only_outdated_name_servers_are_updated_without_force_register(tmp_path: Path) -> None:
    here = setting(tmp_path, force_register=False)

    def unchanged(command: RemotingCommand) -> RemotingCommand:
        return response_to(command, ResponseCode.SUCCESS, ext={"changed": "false"})

    def changed(command: RemotingCommand) -> RemotingCommand:
        return response_to(command, ResponseCode.SUCCESS, ext={"changed": "true"})

    here.servers.answers.update({"a:1": unchanged, "b:2": changed})
    run(here.registration.register())
    assert here.servers.codes("a:1") == [RequestCode.QUERY_DATA_VERSION]
    assert here.servers.codes("b:2") == [RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER]
    theirs = next(line for line in golden.frames("register") if line.get("code") == 322)
    assert here.servers.asked[0][1].ext.keys() == theirs["extFields"].keys()
    assert fastjson.loads(here.servers.asked[0][1].body).keys() == {"counter", "timestamp"}


def test_registration_is_repeated_periodically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = setting(tmp_path, namesrv_addr="a:1")
    monkeypatch.setattr(broker.registration, "FIRST_PERIODIC_S", 0.001)

    async def work() -> None:
        await here.registration.start()
        await here.servers.wait_until(lambda: len(here.servers.codes("a:1")) == 2)
        await here.registration.stop()

    run(work())


def test_changed_permission_is_registered_at_once(tmp_path: Path) -> None:
    here = setting(tmp_path, namesrv_addr="a:1")
    before = here.topics.data_version.counter

    async def work() -> None:
        object.__setattr__(here.config, "broker_permission", 4)
        here.registration.options_changed(frozenset({"brokerPermission"}))
        here.registration.options_changed(frozenset({"traceOn"}))
        await here.servers.wait_until(lambda: bool(here.servers.asked))

    run(work())
    assert here.topics.data_version.counter == before + 1
    assert here.servers.codes("a:1") == [RequestCode.REGISTER_BROKER]


def test_default_name_servers_are_used_if_none_are_configured(tmp_path: Path) -> None:
    config = BrokerConfig(broker_name="b", broker_ip1="127.0.0.1")
    topics = TopicTable(JsonFile(tmp_path / "topics.json"), config)
    assert Registration(config, topics, ["x:1"], NameServers()).name_servers == ("x:1",)
    config = BrokerConfig(broker_name="b", broker_ip1="127.0.0.1", namesrv_addr="y:2")
    assert Registration(config, topics, ["x:1"], NameServers()).name_servers == ("y:2",)


def test_start_and_stop_reach_the_name_server_over_a_connection(tmp_path: Path) -> None:
    codes: list[int] = []

    def answer(_connection: Any, command: RemotingCommand) -> RemotingCommand:
        codes.append(command.code)
        return response_to(command, ResponseCode.SUCCESS, ext={})

    async def work() -> None:
        server = RemotingServer(HandlerTable(answer))
        port = await server.listen("127.0.0.1", 0)
        config = BrokerConfig(broker_name="b", broker_ip1="127.0.0.1", namesrv_addr=f"127.0.0.1:{port}")
        registration = Registration(config, TopicTable(JsonFile(tmp_path / "topics.json"), config))
        await registration.start()
        await registration.stop()
        await server.stop(0.1)

    run(work())
    assert codes == [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER]


def test_restarted_name_server_gets_a_registration_within_seconds(tmp_path: Path) -> None:
    codes: list[int] = []
    heard = asyncio.Event()

    def answer(_connection: Any, command: RemotingCommand) -> RemotingCommand:
        codes.append(command.code)
        heard.set()
        return response_to(command, ResponseCode.SUCCESS, ext={})

    async def work() -> None:
        server = RemotingServer(HandlerTable(answer))
        port = await server.listen("127.0.0.1", free_port())
        config = BrokerConfig(broker_name="b", broker_ip1="127.0.0.1", namesrv_addr=f"127.0.0.1:{port}")
        registration = Registration(config, TopicTable(JsonFile(tmp_path / "topics.json"), config))
        await registration.start()
        await server.stop(0)
        codes.clear()
        heard.clear()
        anew = RemotingServer(HandlerTable(answer))
        await anew.listen("127.0.0.1", port)
        await asyncio.wait_for(heard.wait(), 60)
        await registration.stop()
        await anew.stop(0.1)

    run(work())
    assert codes == [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER]


def test_unreachable_name_server_is_retried_periodically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = setting(tmp_path)
    monkeypatch.setattr(broker.registration, "AGAIN_PAUSES_S", (0, 0, 0))

    async def until_it_gives_up() -> None:
        here.registration.connection_lost()
        here.registration.connection_lost()
        assert here.registration._again is not None
        await here.registration._again

    async def work() -> None:
        here.servers.down.add("b:2")
        await until_it_gives_up()
        assert here.servers.codes("a:1") == [RequestCode.REGISTER_BROKER] * 3
        here.servers.down.clear()
        await until_it_gives_up()
        assert here.servers.codes("b:2") == [RequestCode.REGISTER_BROKER]
        await here.registration.stop()
        here.registration.connection_lost()
        assert here.registration._again is None

    run(work())
