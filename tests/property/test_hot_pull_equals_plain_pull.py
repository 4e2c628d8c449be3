"""The hot path answers a pull exactly as the plain path would, whatever has changed in between."""

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.pulling.hot_pull import PullPath
from headrace.model.permission import READ, WRITE
from headrace.model.subscription import SubscriptionData
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.protocol.bodies import ConsumerData, HeartbeatData
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from support.hot_sends import frame
from support.interpreted import run_interpreted
from support.small_broker import SmallBroker, pull_fields

GROUPS = ["CG", "größe"]
EXPRESSIONS = ["*", "a", "a||b", "c", "nobody", "", None]


class World:
    """A broker whose plain pulls prepare the hot path, wired as in production."""

    def __init__(self, root: Path) -> None:
        self.broker = SmallBroker(root, {"slave_read_enable": True})
        self.client = self.broker.connect()
        self.version = 0
        for topic, queues in (("T", 2), ("U", 1)):
            self.broker.topic(topic, queues)
            for number in range(45):
                self.client.send(b"x" * number, topic, number % queues, i=f"TAGS\x01{'abc'[number % 3]}")
        self.broker.dispatch()
        self.commits: list[tuple[str, str, int, int]] = []
        getter = self.broker.getter

        self.path = PullPath(getter.gatherer, getter.try_gather, lambda *commit: self.commits.append(commit), True, 409)
        self.broker.pulls._path = self.path
        self.broker.topics.on_change(lambda _: self.path.forget_plans())
        self.broker.groups.on_change(lambda _: self.path.forget_plans())
        self.broker.clients.on_change(self.path.forget_plans)

    def change(self, chance: random.Random) -> None:
        """Changes something that pulls may depend on."""
        group = chance.choice(GROUPS)
        kind = chance.randrange(6)
        if kind == 0:
            self.broker.topic("T", chance.choice([1, 2]), permission=chance.choice([READ | WRITE] * 5 + [WRITE]))
        elif kind == 1:
            self.broker.groups.put(
                SubscriptionGroupConfig(group, chance.choice([True] * 5 + [False]), broker_id=chance.randrange(3))
            )
        elif kind == 5:
            self.damage(chance)
        elif kind == 2:
            self.client.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "cid", "consumerGroup": group})
        else:
            self.version += 1
            wanted = [
                SubscriptionData.build(topic, chance.choice(EXPRESSIONS[:5]), sub_version=self.version)
                for topic in chance.choice([("T", "U"), ("T",), ("U",)])
            ]
            self.client.tell(
                RequestCode.HEART_BEAT,
                None,
                HeartbeatData("cid", [], [ConsumerData(group, subscription_data_set=wanted)]).encode(),
            )
            self.client.received()

    def damage(self, chance: random.Random) -> None:
        """Destroys some bytes of the log."""
        path = min(self.broker.paths.commit_log.iterdir())
        with path.open("r+b") as file:
            file.seek(chance.randrange(self.broker.control.wrote_offset))
            file.write(bytes(60))

    def kind(self, chance: random.Random) -> dict[str, Any]:
        """What the pulls of one consumer have in common."""
        return {
            "consumerGroup": chance.choice(GROUPS),
            "topic": chance.choice("TTTUUX"),
            "queue_id": chance.choice([0, 0, 0, 1, 2]),
            "sysFlag": chance.choice([0, 1, 4, 4, 5, 20]),
            "subscription": chance.choice(["*", "a||b", *EXPRESSIONS]),
            "expressionType": chance.choice([None, "TAG", "TAG"]),
            "subVersion": chance.choice([0] * 6 + [self.version, self.version + 1]),
        }

    def pull(self, chance: random.Random, kind: dict[str, Any], opaque: int) -> bytes:
        offset = chance.choice([0, 0, 0, 3, 7, 20, 22, 45, -1, 99])
        most = chance.choice([32, 32, 32, 5, 1, 0, -1, 100_000])
        ext = pull_fields(offset, **kind, maxMsgNums=most, commitOffset=chance.choice([0, 7]))
        header = {
            "code": chance.choice([11, 11, 361]), "extFields": {key: str(value) for key, value in ext.items()}, "flag": 0,
            "language": "JAVA", "opaque": chance.choice([opaque, -opaque]), "serializeTypeCurrentRPC": "JSON", "version": 409,
        }  # fmt: skip
        return frame(json.dumps(header, separators=(",", ":"), ensure_ascii=chance.choice([True, False])).encode())


def told(command: RemotingCommand) -> dict[str, Any]:
    return {
        "opaque": command.opaque, "code": command.code, "remark": command.remark, "ext": command.ext_fields,
        "flag": command.flag, "version": command.version, "language": command.language, "body": command.body,
    }  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.broker.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_hot_and_plain_pulls_give_the_same_answer(world: World, seed: int) -> None:
    chance = random.Random(seed)
    broker, client = world.broker, world.client
    answered = 0
    kinds = [world.kind(chance) for _ in range(8)]
    for opaque in range(600):
        if not chance.randrange(25):
            world.change(chance)
        if not chance.randrange(50):
            kinds = [world.kind(chance) for _ in range(8)]
        data = world.pull(chance, chance.choice(kinds), opaque)
        world.commits.clear()
        hot = world.path.answer(data, 0)
        before = {group: json.dumps(broker.offsets.by_topic(group), default=dict) for group in GROUPS}
        client.handle(data)
        (plain,) = client.received()
        if hot is None:
            assert world.commits == []
            continue
        answered += 1
        (hot_answer,) = FrameDecoder().feed(hot)
        assert told(hot_answer) == told(plain), data
        if world.commits:
            ((group, topic, queue_id, offset),) = world.commits
            assert broker.offsets.query(group, topic, queue_id) == offset
        else:
            assert before == {group: json.dumps(broker.offsets.by_topic(group), default=dict) for group in GROUPS}
    assert answered > 20


def outcomes(given: bytes) -> bytes:
    """How the hot path answers random pulls: all but the records, which have timestamps, and their length."""
    chance = random.Random(int(given))
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        kinds = [world.kind(chance) for _ in range(8)]
        made: list[Any] = []
        for opaque in range(400):
            if not chance.randrange(25):
                world.change(chance)
            data = world.pull(chance, chance.choice(kinds), opaque)
            hot = world.path.answer(data, 0)
            world.client.handle(data)  # prepares the next pull of this kind
            world.client.received()
            made += [told(answer) | {"body": len(answer.body)} for answer in FrameDecoder().feed(hot or b"")]
        world.broker.close()
    return json.dumps([*made, world.commits], default=str).encode()


@pytest.mark.slow
def test_interpreted_pulls_equal_compiled_ones() -> None:
    given = b"11"
    made = outcomes(given)
    assert made.count(b"FOUND") > 20
    assert run_interpreted("property.test_hot_pull_equals_plain_pull", "outcomes", given) == made
