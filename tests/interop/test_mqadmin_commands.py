"""Every command of Apache's command line prints the same for both brokers in the same state.

Masked are values that differ between any two brokers: addresses, ids, times, rates, and the text of an error (its code
is compared).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.protocol.headers.transaction import EndTransactionRequestHeader
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.appliance import Appliance
from support.client import Client
from support.java import Java
from support.plain_client import PlainClient
from support.reference import Reference, disposable
from support.sdk import await_registered
from support.servers import Server, wait_until

TOPIC, GROUP, IDLE_GROUP, NAME = "Administered", "administered-group", "idle-group", "administered"
SETTINGS = {"brokerName": NAME, "transactionCheckInterval": "3600000"}

COMMANDS = (
    "topicRoute -t {topic}",
    "topicStatus -t {topic}",
    "topicStatus -t NoSuchTopic",
    "topicClusterList -t {topic}",
    "topicList -c",
    "clusterList",
    "clusterList -m",
    "queryMsgById -i {id}",
    "queryMsgByKey -t {topic} -k key-1",
    "queryMsgByKey -t {topic} -k no-such-key",
    "queryMsgByUniqueKey -t {topic} -i {unique}",
    "queryMsgByOffset -t {topic} -b {name} -i 0 -o 1",
    "queryMsgByOffset -t {topic} -b {name} -i 0 -o 99",
    "queryMsgTraceById -i {unique}",
    "printMsg -t {topic} -d true",
    "printMsgByQueue -t {topic} -a {name} -i 1 -p true -d true",
    "brokerConsumeStats -b {broker}",
    "producerConnection -g no-such-producers -t {topic}",
    "consumerConnection -g {group}",
    "consumerConnection -g no-such-group",
    "consumerProgress",
    "consumerProgress -g {group}",
    "consumerProgress -g no-such-group",
    "consumerStatus -g {group}",
    "consumerStatus -g no-such-group",
    "statsAll -t NoSuchTopic",  # figures are updated every ten seconds: tested in test_broker_statistics.py
    "allocateMQ -t {topic} -i 10.0.0.1,10.0.0.2",
    "getConsumerConfig -g {group}",
    "queryCq -t {topic} -q 0 -i 0 -c 2 -b {broker}",
    "queryCq -t {topic} -q 0 -i 0 -c 2 -b {broker} -g {group}",
    "consumeMessage -t {topic} -b {name} -i 0 -o 0 -c 1 -g {idle}",
    "updateTopic -b {broker} -t Another -r 3 -w 5",
    "updateTopic -c DefaultCluster -t Another -r 3 -w 5 -p 4",
    "updateTopic -b {broker} -t TBW102",
    "updateTopicPerm -b {broker} -t Another -p 6",
    "updateTopicPerm -c DefaultCluster -t NoSuchTopic -p 6",
    "updateSubGroup -b {broker} -g another-group -r 3",
    "getConsumerConfig -g another-group",
    "deleteSubGroup -b {broker} -g another-group -r true",
    "updateOrderConf -t Another -m put -v {name}:3",
    "updateOrderConf -t Another -m get",
    "updateOrderConf -t Another -m delete",
    "resetOffsetByTime -g no-such-group -t {topic} -s now",
    "resetOffsetByTime -g no-such-group -t NoSuchTopic -s now",
    "skipAccumulatedMessage -g {group} -t {topic}",
    "cloneGroupOffset -s {group} -d {idle} -t {topic} -o true",
    "cloneGroupOffset -s no-such-group -d {idle} -t {topic} -o true",
    "sendMessage -t {topic} -p more -k key-more -c TagA",
    "sendMessage -t {topic} -p more -b {name} -i 1",
    "sendMsgStatus -b {name} -c 2 -s 10",
    "checkMsgSendRT -t {topic} -a 3 -s 10",
    "updateKvConfig -s space -k k -v v",
    "deleteKvConfig -s space -k k",
    "deleteKvConfig -s space -k no-such-key",
    "wipeWritePerm -b {name}",
    "addWritePerm -b {name}",
    "wipeWritePerm -b no-such-broker",
    "updateBrokerConfig -b {broker} -k flushIntervalCommitLog -v 400",
    "updateNamesrvConfig -k orderMessageEnable -v false",
    "cleanExpiredCQ -b {broker}",
    "deleteExpiredCommitLog -b {broker}",
    "cleanUnusedTopic -b {broker}",
    "deleteTopic -c DefaultCluster -t Another",
)
OF_KEYS = (
    "brokerStatus -b {broker}",
    "brokerStatus -c DefaultCluster",
    "getBrokerConfig -b {broker}",
    "getBrokerConfig -c DefaultCluster",
    "getNamesrvConfig",
)
"""They print keys and values of a broker's own: ours has every key of Apache's."""
EXPORTS = {"exportMetadata": "metadata", "exportConfigs": "configs", "exportMetrics": "metrics"}
NOT_COMPARED = {
    "startMonitoring": "it runs until it is killed",
    "clusterRT": "it runs until it is killed",
    "producer": "it lists the clients of this program, which differ",
    "clusterAclConfigVersion": "compared with access control in test_acl_mqadmin.py",
    "updateAclConfig": "the same",
    "deleteAclConfig": "the same",
    "updateGlobalWhiteAddr": "the same",
}
_NUMBERS_DIFFER = ("sendMessage", "sendMsgStatus", "checkMsgSendRT")
"""Queues are chosen at random, and times are told in whole ms without a word."""


class Made:
    """A broker in the state that all commands query."""

    def __init__(self, server: Server, java: Java, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.client = Client(java, server)
        self.client.create_topic(TOPIC, 2)
        sent = self.client.send(TOPIC, 6, mode="selector")
        self.reader = f"reader-{server.name}"
        self.client.consume(self.reader, TOPIC, group=GROUP)
        self.client.receive(self.reader, 6)
        # Not Client.await_committed: its consumer joins a group of its own, which a broker learns of at some later
        # time.
        with PlainClient(server.broker) as plain:
            wait_until(lambda: self._committed(plain) == [3, 3], 60, "the group has committed its offsets")
            # Apache's broker answers with NoSuchElementException until it has counted for a second.
            runtime = RequestCode.GET_BROKER_RUNTIME_INFO
            wait_until(lambda: plain.ask(runtime).code == ResponseCode.SUCCESS, 60, "the broker knows its figures")
        self.client.await_route(f"%RETRY%{GROUP}")
        self.fields = {
            "topic": TOPIC, "group": "workers", "idle": IDLE_GROUP, "name": NAME, "broker": server.broker,
            "id": sent[1]["offsetMsgId"], "unique": sent[1]["msgId"],
        }  # fmt: skip

    def _committed(self, plain: PlainClient) -> list[int]:
        self.client.call("commit", consumer=self.reader)
        asked = [{"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue} for queue in range(2)]
        return [int(plain.ask(RequestCode.QUERY_CONSUMER_OFFSET, one).ext.get("offset", "-1")) for one in asked]

    def mqadmin(self, command: str) -> str:
        arguments = [*command.format(**self.fields).split(), "-n", self.server.name_server]
        printed: str = self.client.call("mqadmin", arguments=arguments, errors=True)
        return printed

    def export(self, command: str) -> Any:
        printed = self.mqadmin(f"{command} -c DefaultCluster -f {self.folder}")
        assert "success" in printed, printed
        return json.loads((self.folder / f"{EXPORTS[command]}.json").read_text())


@pytest.fixture(scope="module")
def both(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Made, Made]]:
    """Apache's broker and ours."""
    folder = tmp_path_factory.mktemp("administered")
    with (
        disposable(Reference(folder / "apache", settings=SETTINGS)) as apache,
        disposable(Appliance(folder / "ours", settings=SETTINGS)) as ours,
    ):
        made = []
        for server in (apache, ours):
            await_registered(server.name_server)
            made.append(Made(server, java, folder / f"exported-{server.name}"))
        yield made[0], made[1]
        for one in made:
            one.client.stop(one.reader)


_BLOTS = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\b[0-9A-F]{32,}\b"), "ID"),
    (re.compile(r"\breader-[a-z]+\b"), "READER"),
    (re.compile(r"\b\d{13}\b"), "MS"),
    (re.compile(r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:.]\d+)?"), "DATE"),
    (re.compile(r"\b\d+\.\d+(E-?\d+)?\b"), "FRACTION"),
    (re.compile(r"\(\d+,\d+ms\)"), "(LOAD)"),
    (re.compile(r"\bV4_9_[78]\b"), "VERSION"),
    (re.compile(r"(CODE: \d+ ).*"), r"\1"),
    (re.compile(r" +"), " "),
)
_TRACE = re.compile(r"\s+at |\s+\.\.\. \d+ more|For more information|See http")


def blotted(command: str, printed: str) -> list[str]:
    """The printed lines, sorted, with masked values that differ between any two brokers."""
    lines = []
    for line in printed.splitlines():
        if _TRACE.match(line) or not line.strip():
            continue
        for pattern, blot in _BLOTS:
            line = pattern.sub(blot, line)  # noqa: PLW2901
        lines.append(re.sub(r"\d+", "N", line) if command.startswith(_NUMBERS_DIFFER) else line.strip())
    return sorted(lines)


def test_every_command_is_compared_or_listed_as_exception(both: tuple[Made, Made]) -> None:
    listed = re.findall(r"^   (\w+)\s", both[0].client.call("mqadmin", arguments=[]), re.MULTILINE)
    compared = {command.split()[0] for command in (*COMMANDS, *OF_KEYS)} | EXPORTS.keys()
    assert len(listed) > 50
    assert set(listed) == compared | NOT_COMPARED.keys()


def test_commands_print_the_same_for_both_brokers(both: tuple[Made, Made]) -> None:
    differ, printed = {}, 0
    for command in COMMANDS:
        apaches, ours = (blotted(command, made.mqadmin(command)) for made in both)
        if apaches != ours:
            differ[command] = {"apache": apaches, "ours": ours}
        printed += bool(apaches)
    assert printed >= len(COMMANDS) - 3
    assert not differ, json.dumps(differ, indent=1)


@pytest.mark.parametrize("command", OF_KEYS)
def test_broker_config_has_every_key_of_apaches(both: tuple[Made, Made], command: str) -> None:
    apaches, ours = (
        {
            re.sub(r"127\.0\.0\.1:\d+|(?<=_)/\S+", "", key).strip()
            for key in re.findall(r"^(.+?) *(?:=|: )", made.mqadmin(command), re.MULTILINE)
        }
        for made in both
    )
    assert len(apaches) > 15
    assert apaches - ours == set()


@pytest.mark.parametrize("command", EXPORTS)
def test_exported_files_have_every_key_of_apaches(both: tuple[Made, Made], command: str) -> None:
    def keys(value: Any, path: str = "") -> set[str]:
        if not isinstance(value, dict):
            return {path}
        return {found for key, each in value.items() for found in keys(each, f"{path}/{key}")}

    apaches, ours = (keys(made.export(command)) for made in both)
    apaches = {key for key in apaches if "RMQ_SYS" not in key}
    assert len(apaches) > 10
    assert apaches - ours == set()


def test_store_statistics_equal_apaches_for_the_same_work(both: tuple[Made, Made]) -> None:
    apaches, ours = (_work(made.server.broker) for made in both)
    assert ours == apaches
    assert apaches["msgPutTotalTodayNow"] == _APPENDED


_APPENDED = 14
"""Four messages, two delayed and delivered again, a dead letter, two prepared, one committed, two op messages; see below."""


def _work(broker: str) -> dict[str, int]:
    """Sends, delays, sends back, prepares, commits and rolls back messages; returns the growth of the figures."""
    topic = "Worked"
    names = ("putMessageTimesTotal", "msgPutTotalTodayNow", "msgGetTotalTodayNow")
    with PlainClient(broker) as client:
        create = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
        }  # fmt: skip
        assert client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create).code == 0
        before = client.runtime()
        for number in range(3):
            assert client.send(topic, b"%d" % number).code == 0
        assert client.send(topic, b"delayed", properties="DELAY\x011\x02").code == 0
        wait_until(lambda: _end(client, topic) == 4, 30, "the delayed message is delivered")
        assert client.pull(topic, 3).code == 0
        first = int(client.send(topic, b"to be sent back").ext["msgId"][-16:], 16)
        for level in (1, -1):
            back = {
                "offset": first,
                "group": "workers",
                "delayLevel": level,
                "originTopic": topic,
                "originMsgId": "",
                "unitMode": "false",
            }
            assert client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back).code == 0
        wait_until(lambda: _end(client, "%RETRY%workers") == 1, 30, "what was sent back is delivered")
        assert client.pull("%RETRY%workers").code == 0
        for outcome in (8, 12):
            half = client.send(
                topic, b"half", f=4, properties=f"TRAN_MSG\x01true\x02PGROUP\x01plain\x02UNIQ_KEY\x01U{outcome}\x02"
            )
            assert half.code == 0, half.remark
            header = EndTransactionRequestHeader(
                "plain", int(half.ext["queueOffset"]), int(half.ext["msgId"][-16:], 16), outcome, msg_id=f"U{outcome}", transaction_id=f"U{outcome}"
            )  # fmt: skip
            assert client.ask(RequestCode.END_TRANSACTION, dict(header.to_ext())).code == 0

        def grown() -> dict[str, int]:
            after = client.runtime()
            return {name: int(after[name]) - int(before[name]) for name in names}

        wait_until(lambda: grown()["msgPutTotalTodayNow"] >= _APPENDED, 30, "all of it is counted")
        return grown()


def _end(client: PlainClient, topic: str) -> int:
    return int(client.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).ext["offset"])
