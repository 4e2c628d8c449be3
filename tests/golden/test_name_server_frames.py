"""Our name server answers Apache's recorded requests as Apache's did.

Code, ext fields and body must be equal. Bodies are compared as fastjson reads them, lists of names as sets. DIFFERENCES
lists intended differences with their reasons.
"""

from pathlib import Path
from typing import Any

import pytest

from headrace.protocol import fastjson
from headrace.protocol.bodies.properties_text import decode_properties_text
from headrace.protocol.frame import decode_frame
from headrace.protocol.remoting_command import RemotingCommand, SerializeType
from headrace.protocol.request_code import RequestCode
from headrace.protocol.version import CURRENT_VERSION
from headrace.remoting import RemotingClient
from nameserver.config import NameServerConfig
from nameserver.daemon import NameServer
from support.golden import frames
from support.loops import LOOPS, run_on, until

DIFFERENCES = {
    "version": "the recorded servers are 4.9.7 (407), ours says 409, 4.9.8",
    "remark": "remarks are for people and in our own words; where Apache has one, so have we",
    "GET_NAMESRV_CONFIG": "ours has no thread pools and buffers: every key is there, with the value that holds",
}


def exchanges(scenario: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """The recorded requests to the name server with Apache's answers, in order."""
    requests: list[dict[str, Any]] = []
    answers: dict[tuple[int, int], dict[str, Any]] = {}
    for line in frames(scenario):
        if "bytes" not in line or line["to"] != "nameserver":
            continue
        if line["direction"] == ">":
            requests.append(line)
        else:
            answers[line["connection"], line["opaque"]] = line
    return [(request, answers.get((request["connection"], request["opaque"]))) for request in requests]


def told_apart(body: bytes) -> Any:
    """A body as fastjson reads it, regardless of the order of names in lists."""

    def sorted_lists(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): sorted_lists(item) for key, item in value.items()}
        if isinstance(value, list):
            return sorted((sorted_lists(item) for item in value), key=repr)
        return value

    return sorted_lists(fastjson.loads(body)) if body else None


class Replay:
    """A running name server of ours, with one connection per recorded connection."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clients: dict[int, RemotingClient] = {}

    async def __aenter__(self) -> "Replay":
        self.name_server = NameServer(NameServerConfig(), self.directory)
        self.address = f"127.0.0.1:{await self.name_server.listen('127.0.0.1', 0)}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients.values():
            await client.close()
        await self.name_server.stop()

    async def ask(self, connection: int, request: RemotingCommand) -> RemotingCommand:
        client = self.clients.setdefault(connection, RemotingClient())
        return await client.request(self.address, request, 60_000)


def compare(request: RemotingCommand, ours: RemotingCommand, apaches: RemotingCommand) -> None:
    assert ours.code == apaches.code
    assert ours.flag == apaches.flag
    assert ours.opaque == apaches.opaque
    assert ours.ext_fields == apaches.ext_fields
    assert (ours.remark is None) == (apaches.remark is None)
    assert ours.version == CURRENT_VERSION
    assert ours.serialize_type == apaches.serialize_type
    if request.code == RequestCode.GET_NAMESRV_CONFIG:
        compare_settings(ours.body, apaches.body)
        return
    assert told_apart(ours.body) == told_apart(apaches.body)
    if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        assert ours.body == apaches.body


def compare_settings(ours: bytes, apaches: bytes) -> None:
    mine, theirs = decode_properties_text(ours), decode_properties_text(apaches)
    assert theirs.keys() <= mine.keys()
    for key in ("orderMessageEnable", "serverChannelMaxIdleTimeSeconds"):
        assert mine[key] == theirs[key]


@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_name_server_scenario_gets_the_same_answers_as_from_apache(loop: str, tmp_path: Path) -> None:
    # The scenario begins after broker-a has registered with all its topics, which are taken from Apache's answers.
    recorded = exchanges("name-server")
    topics = next(
        fastjson.loads(answer["body"])["topicList"]
        for request, answer in with_bodies(recorded)
        if request["code"] == 206
    )
    configurations = {
        topic: {"topicName": topic, "readQueueNums": 8, "writeQueueNums": 8, "perm": 7 if topic == "TBW102" else 6}
        for topic in topics
    }

    async def main() -> int:
        async with Replay(tmp_path) as replay:
            first = next(decode_frame(request["bytes"]) for request, _ in recorded if request["code"] == 103)
            before = RemotingCommand(103, opaque=1, ext_fields={**first.ext, "bodyCrc32": "0"})
            before.body = fastjson.dumps(
                {
                    "topicConfigSerializeWrapper": {
                        "dataVersion": {"counter": 33, "timestamp": 1},
                        "topicConfigTable": {
                            topic: each for topic, each in configurations.items() if topic != "RouteTopic"
                        },
                    }
                }
            ).encode()
            assert (await replay.ask(recorded[0][0]["connection"], before)).code == 0
            compared = 0
            for line, answer in recorded:
                assert answer is not None
                request = decode_frame(line["bytes"])
                compare(request, await replay.ask(line["connection"], request), decode_frame(answer["bytes"]))
                compared += 1
            return compared

    assert run_on(loop, main()) == 50


def with_bodies(
    recorded: list[tuple[dict[str, Any], dict[str, Any] | None]],
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [
        (request, {**answer, "body": decode_frame(answer["bytes"]).body})
        for request, answer in recorded
        if answer is not None
    ]


def test_register_scenario_gets_the_same_answers_as_from_apache(tmp_path: Path) -> None:
    async def main() -> None:
        async with Replay(tmp_path) as replay:
            for line, answer in exchanges("register"):
                assert answer is not None
                request = decode_frame(line["bytes"])
                compare(request, await replay.ask(line["connection"], request), decode_frame(answer["bytes"]))
            routes = replay.name_server.routes
            # broker-b has unregistered: its own data is gone, and broker-a's is still there.
            assert routes.clusters() == {"DefaultCluster": ["broker-a"]}
            assert "NewTopic" in routes.topics()
            assert "NewTopicToo" not in routes.topics()
            for client in replay.clients.values():
                await client.close()
            await until(lambda: not routes.topics())

    run_on("asyncio", main())


def test_compressed_and_plain_registrations_give_the_same_routes(tmp_path: Path) -> None:
    registrations = [decode_frame(line["bytes"]) for line, _ in exchanges("register") if line["code"] == 103]
    plain, compressed = (
        next(each for each in registrations if each.ext["compressed"] == kind) for kind in ("false", "true")
    )

    async def main() -> None:
        async with Replay(tmp_path) as replay:
            for connection, request in enumerate((plain, compressed)):
                await replay.ask(connection, request)
            routes = replay.name_server.routes
            shared = routes.find_route("TBW102")
            assert shared is not None
            one, other = sorted(shared.queue_datas, key=lambda queue: queue.broker_name)
            assert (one.broker_name, other.broker_name) == ("broker-a", "broker-b")
            assert (one.read_queue_nums, one.write_queue_nums, one.perm) == (8, 8, 7)
            assert (other.read_queue_nums, other.write_queue_nums, other.perm) == (8, 8, 7)
            assert set(routes.topics_of_cluster("DefaultCluster")) == set(routes.topics())

    run_on("asyncio", main())


@pytest.mark.parametrize("kind", SerializeType)
def test_answer_uses_the_encoding_of_the_request(kind: SerializeType, tmp_path: Path) -> None:
    async def main() -> None:
        async with Replay(tmp_path) as replay:
            for line, answer in exchanges("name-server")[:20]:
                assert answer is not None
                request = decode_frame(line["bytes"])
                request.serialize_type = kind
                ours = await replay.ask(1, request)
                assert ours.serialize_type == kind

    run_on("asyncio", main())
