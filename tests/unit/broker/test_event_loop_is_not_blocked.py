"""No request holds the event loop for long, whatever its body: broker and name server, each body that clients can send, and any body at every code."""

import asyncio
import socket
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.model.message import Message
from headrace.protocol import fastjson
from headrace.protocol.batch import encode_batch, encode_entry
from headrace.protocol.bodies.tables import TopicList
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, create_request
from headrace.protocol.request_code import RequestCode as Code
from headrace.protocol.response_code import ResponseCode
from headrace.remoting import HandlerTable, RemotingServer
from nameserver.config import NameServerConfig
from nameserver.handlers import NameServerHandlers
from nameserver.kv_config import KvConfig
from nameserver.routes import RouteTable
from nameserver.settings import Settings
from support.admin_world import AdminWorld
from support.small_broker import MAX_MESSAGE_SIZE, SmallBroker, send_fields
from support.stalls import watched_steps

MOST_MS = 50
LARGEST = (15 << 20) + (512 << 10)
ANY = 2 << 20
BROKER = {
    "brokerName": "b",
    "brokerAddr": "127.0.0.1:1",
    "clusterName": "c",
    "brokerId": "0",
    "haServerAddr": "127.0.0.1:2",
}

BIG_BROKER = BROKER | {"brokerName": "big", "brokerAddr": "127.0.0.1:9"}


class World:
    """All handlers of broker and name server behind one port."""

    def __init__(self, root: Path) -> None:
        self.broker = SmallBroker(root / "small")
        self.broker.topic("T")
        sizes = {"max_message_size": 4 << 20, "mapped_file_size_commit_log": 16 << 20}
        self.roomy = SmallBroker(root / "roomy", store=sizes, files=6)
        self.roomy.topic("T")
        self.roomy.path.prepare_topic(b"T", 4, 0)
        self.root = root
        self.tables = [self.broker._main.handlers, AdminWorld(root / "admin").handlers, self._name_server()]

    def _name_server(self) -> HandlerTable:
        """That of a name server which knows no broker yet."""
        kv, own = self.root / "kv.json", self.root / "namesrv.properties"
        config = NameServerConfig(kv_config_path=str(kv), config_store_path=str(own))
        return NameServerHandlers(RouteTable(lambda: 0), KvConfig(kv), Settings(config, own)).table()

    @property
    def codes(self) -> list[int]:
        """All codes that are served."""
        return sorted({int(code) for table in self.tables for code in table.codes()})

    def _handle(self, connection: Any, command: RemotingCommand) -> Any:
        table = next((table for table in self.tables if command.code in table.codes()), HandlerTable())
        return table.handler_for(command.code)(connection, command)

    def answer(self, port: int, data: bytes) -> RemotingCommand | None:
        """The answer to a frame; None if the connection was closed."""
        decoder = FrameDecoder()
        try:
            with socket.create_connection(("127.0.0.1", port), 60) as peer:
                peer.sendall(data)
                while read := peer.recv(1 << 20):
                    for command in decoder.feed(read):
                        return command
        except ConnectionError:
            pass
        return None

    def longest_ms(
        self, monkeypatch: pytest.MonkeyPatch, frames: list[bytes], *, roomy: bool = False
    ) -> tuple[float, list[RemotingCommand | None]]:
        """The longest step of the loop while the frames were answered, and the answers; `roomy`: the broker that takes 4 MiB, hot path and all.

        A step whose cost grows with the request takes long each time. One that took long because the machine was interrupted does not, so it is
        measured again, with other names: what the first attempt created must be created again. What happens only once is not what is measured.
        """
        longest, answers = self._longest_ms(monkeypatch, frames, roomy=roomy)
        for attempt in (1, 2):
            if longest < MOST_MS:
                break
            renamed = [
                frame.replace(b"topic-", b"topi%d-" % attempt).replace(b"group-", b"grou%d-" % attempt)
                for frame in frames
            ]
            longest = min(longest, self._longest_ms(monkeypatch, renamed, roomy=roomy)[0])
        return longest, answers

    def _longest_ms(
        self, monkeypatch: pytest.MonkeyPatch, frames: list[bytes], *, roomy: bool
    ) -> tuple[float, list[RemotingCommand | None]]:
        answers: list[RemotingCommand | None] = []
        self.tables[2] = self._name_server()

        async def main() -> float:
            server = RemotingServer(self.roomy._main.handlers if roomy else HandlerTable(self._handle))
            port = await server.listen("127.0.0.1", 0, make_hot_path=self.roomy.hot_path if roomy else None)
            with watched_steps(monkeypatch) as steps:
                for frame in frames:
                    # In a thread: its own steps are not to be measured.
                    answer = await asyncio.to_thread(self.answer, port, frame)
                    answers.append(answer)
            await server.stop(0.1)
            return steps.longest_ms

        return self.broker.loop.run_until_complete(main()), answers


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("bodies"))
    yield made
    made.broker.close()
    made.roomy.close()


def json_of(size: int, value: Any) -> bytes:
    """The JSON of the longest list of the value that has this size, with the place `%s` for each one's number filled in."""
    text = fastjson.dumps(value)
    count = size // (len(text) + 6)
    return ",".join(text.replace("%s", f"{number:06d}") for number in range(count)).encode()


def topics(count: int) -> bytes:
    config = '{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"topic-%s","topicSysFlag":0,"writeQueueNums":4}'
    listed = ",".join(f'"topic-{number:06d}":{config.replace("%s", f"{number:06d}")}' for number in range(count))
    version = f'{{"counter":{count},"timestamp":1}}'
    wrapper = f'{{"dataVersion":{version},"topicConfigTable":{{{listed}}}}}'
    return f'{{"filterServerList":[],"topicConfigSerializeWrapper":{wrapper}}}'.encode()


QUEUE = {"brokerName": "b", "queueId": 1, "topic": "topic-%s"}
SUBSCRIPTION = {
    "classFilterMode": False,
    "codeSet": [],
    "expressionType": "TAG",
    "subString": "*",
    "subVersion": 1,
    "tagsSet": [],
    "topic": "topic-%s",
}


@dataclass
class Body:
    """A kind of body, and with which fields it goes where."""

    code: int
    make: Callable[[int], bytes]
    ext: dict[str, str] | None = None


BODIES = {
    "heartbeat-subscriptions": Body(Code.HEART_BEAT, lambda size: b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING","subscriptionDataSet":[%s]}]}' % json_of(size, SUBSCRIPTION)),
    "heartbeat-groups": Body(Code.HEART_BEAT, lambda size: b'{"clientID":"c","consumerDataSet":[%s]}' % json_of(size, {"groupName": "group-%s"})),
    "heartbeat-producers": Body(Code.HEART_BEAT, lambda size: b'{"clientID":"c","producerDataSet":[%s]}' % json_of(size, {"groupName": "group-%s"})),
    "lock": Body(Code.LOCK_BATCH_MQ, lambda size: b'{"clientId":"c","consumerGroup":"G","mqSet":[%s]}' % json_of(size, QUEUE)),
    "unlock": Body(Code.UNLOCK_BATCH_MQ, lambda size: b'{"clientId":"c","consumerGroup":"G","mqSet":[%s]}' % json_of(size, QUEUE)),
    "check-client": Body(Code.CHECK_CLIENT_CONFIG, lambda size: b'{"clientId":"c","group":"G","subscriptionData":{"expressionType":"SQL92","subString":"%s","topic":"T"}}' % (b"a = 1 or " * (size // 9))),
    "subscription-group": Body(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, lambda size: b'{"groupName":"%s"}' % (b"g" * size)),
    "broker-config": Body(Code.UPDATE_BROKER_CONFIG, lambda size: b"unknownKey%d=value\\\n" * (size // 20)),
    "data-version": Body(Code.QUERY_DATA_VERSION, lambda size: b'{"counter":1,"x":[%s]}' % json_of(size, {}), BROKER),
    "register": Body(Code.REGISTER_BROKER, lambda size: topics(size // 200), BIG_BROKER),
    "register-compressed": Body(Code.REGISTER_BROKER, lambda size: zlib.compress(bytes(size * 10)), BROKER | {"compressed": "true"}),
    "register-sloppy-table": Body(Code.REGISTER_BROKER, lambda size: b'{"topicConfigTable":{' + b"a:{}," * (size // 5), BROKER),
    "name-server-config": Body(Code.UPDATE_NAMESRV_CONFIG, lambda size: b"unknownKey=value\\\n" * (size // 18)),
    "batch": Body(Code.SEND_BATCH_MESSAGE, lambda size: encode_batch([Message("T", b"x")] * (min(size, MAX_MESSAGE_SIZE) // 30)), send_fields(m="true")),
    "send": Body(Code.SEND_MESSAGE_V2, bytes, send_fields()),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("size", [64 << 10, 1 << 20, LARGEST])
@pytest.mark.parametrize("name", BODIES)
def test_valid_bodies_block_the_loop_for_less_than_50_ms(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    body = BODIES[name]
    ext = None if body.ext is None else {key: str(value) for key, value in body.ext.items()}
    longest, answers = world.longest_ms(monkeypatch, [create_request(body.code, ext, body.make(size)).encode()])
    assert longest < MOST_MS
    assert answers[0] is not None


BATCHES = {
    "as of an official client": (65536, encode_entry(b"x", 0, b"UNIQ_KEY\x01" + b"0" * 32), ResponseCode.SUCCESS),
    "tiny messages": (65536, encode_entry(b"x", 0, b""), ResponseCode.SUCCESS),
    "too many": ((4 << 20) // 22, encode_entry(b"", 0, b""), ResponseCode.MESSAGE_ILLEGAL),
}


@pytest.mark.slow
@pytest.mark.parametrize("serialize_type", SerializeType)  # the hot path takes JSON only
@pytest.mark.parametrize("kind", BATCHES)
def test_batches_of_many_messages_block_the_loop_for_less_than_50_ms(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, serialize_type: SerializeType
) -> None:
    count, entry, code = BATCHES[kind]
    ext = {key: str(value) for key, value in send_fields(m="true").items()}
    request = create_request(Code.SEND_BATCH_MESSAGE, ext, entry * count, serialize_type=serialize_type)
    longest, (answer,) = world.longest_ms(monkeypatch, [request.encode()], roomy=True)
    assert longest < MOST_MS
    assert answer is not None
    assert answer.code == code


@pytest.mark.slow
def test_lists_and_changes_of_60000_topics_block_the_loop_for_less_than_50_ms(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [
        (Code.REGISTER_BROKER, BIG_BROKER, topics(60_000)),
        (Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, b""),
        (Code.GET_TOPICS_BY_CLUSTER, {"cluster": "c"}, b""),
        (Code.GET_UNIT_TOPIC_LIST, None, b""),
        (Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "big"}, b""),
        (Code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "big"}, b""),
        (Code.UNREGISTER_BROKER, BIG_BROKER, b""),
        (Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, b""),
    ]
    frames = [create_request(code, ext, body).encode() for code, ext, body in requests]
    longest, answers = world.longest_ms(monkeypatch, frames)
    assert longest < MOST_MS
    lists = [TopicList.decode(answer.body) for answer in (answers[1], answers[2], answers[7]) if answer is not None]
    assert [len(one.topic_list) for one in lists] == [60_000, 60_000, 0]


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "sloppy": lambda size: b"{" + b"a:1," * (size // 4) + b"}",
    "lists": lambda size: b"[" + b"[]," * (size // 3) + b"1]",
    "keys": lambda size: b"{" + b",".join(b'"%x":1' % number for number in range(size // 11)) + b"}",
    "sloppy within": lambda size: b'{"clientID":"c","consumerDataSet":[' + b"{a:1}," * (size // 6) + b"]}",
    "never ends": lambda size: b'{"clientID":"' + b"\\u0041" * (size // 6),
    "sloppy but small": lambda size: b"{" + b"{a:1}:1," * min(size // 8, 8000) + b"}",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_bodies_block_the_loop_for_less_than_50_ms_for_every_code(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    body = HOSTILE[kind](ANY)
    frames = [create_request(code, BROKER, body).encode() for code in world.codes]
    longest, _ = world.longest_ms(monkeypatch, frames)
    assert longest < MOST_MS


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_bodies_of_the_largest_size_are_answered_in_less_than_50_ms(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    body = HOSTILE[kind](LARGEST)
    codes = {entry.code for entry in BODIES.values()}
    frames = [create_request(code, BROKER, body).encode() for code in codes]
    longest, answers = world.longest_ms(monkeypatch, frames)
    assert longest < MOST_MS
    assert all(answer is not None for answer in answers)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_headers_block_the_loop_for_less_than_50_ms(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    frames = []
    for size in (LARGEST, 500 << 10, 60 << 10):
        header = HOSTILE[kind](size)
        frames.append((4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
    entries = {f"{number:x}": "" for number in range(60_000)}
    binary = create_request(105, entries, serialize_type=SerializeType.ROCKETMQ).encode()
    as_json = create_request(105, entries).encode()
    longest, _ = world.longest_ms(monkeypatch, [*frames, binary, as_json])
    assert longest < MOST_MS
