"""Every option that can be changed at run time is changed, and the change takes effect.

`OBSERVATIONS` has a function for each key that docs/reference/configuration.md marks with `*`; a key without one fails.
Each starts from a value (the servers' settings below) with which the awaited effect would take an hour or never happen.
Effects that depend on a clock or a nearly full disk are observed on a housekeeper in this process, all others on
running appliances through `updateBrokerConfig`.
"""

import inspect
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from broker.config import BrokerConfig
from headrace.model.option import is_changeable_by_request, keys_of
from headrace.model.subscription import SubscriptionData
from headrace.protocol import fastjson
from headrace.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from headrace.protocol.bodies.properties_text import decode_properties_text, encode_properties_text
from headrace.protocol.record import decode_records
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from ipc.instance import Instance
from ipc.publish.dispatch import DispatchPublisher
from ipc.publish.flush import FlushPublisher
from ipc.publish.log import LogPublisher
from nameserver.config import NameServerConfig
from store.config import StoreConfig
from store.filter.python.functions import FunctionFolder
from store.housekeeping import cleaner, forced_deletions
from store.housekeeping import daemon as housekeeping_daemon
from store.mapped_file import path_of, reserve_file
from support.appliance import Appliance
from support.plain_client import PlainClient
from support.reference import disposable
from support.servers import wait_until
from support.store_files import (
    LOG_FILE_SIZE,
    LogBuilder,
    RunningRole,
    change_options,
    put_entry,
    running_instance,
    small_config,
)

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "configuration.md"
HOUR_MS: Final = "3600000"
ALL_HOURS: Final = ";".join(f"{hour:02}" for hour in range(24))
DEADLINE_S: Final = 30

Observation = Callable[..., None]
OBSERVATIONS: dict[str, Observation] = {}


def observes(*keys: str) -> Callable[[Observation], Observation]:
    """Registers the function that observes these options. Its parameters are fixtures; `key` is the option's name."""

    def note(observation: Observation) -> Observation:
        assert not OBSERVATIONS.keys() & set(keys)
        OBSERVATIONS.update(dict.fromkeys(keys, observation))
        return observation

    return note


# ---- servers


class Options:
    """Changes options of a running broker or name server and restores them."""

    def __init__(self, address: str, show: RequestCode, update: RequestCode) -> None:
        self._client = PlainClient(address)
        self._update = update
        self._before = decode_properties_text(self._client.ask(show).body)
        self._changed: dict[str, str] = {}

    def change(self, **texts: object) -> None:
        said = {key: str(value) for key, value in texts.items()}
        self._changed |= said
        self._send(said)

    def restore(self) -> None:
        """Restores everything that was changed."""
        self._send({key: self._before.get(key, "") for key in self._changed})
        self._client.close()

    def _send(self, texts: dict[str, str]) -> None:
        answer = self._client.ask(self._update, None, encode_properties_text(texts).encode())
        assert answer.code == ResponseCode.SUCCESS, answer.remark


MASTER: Final = {
    "brokerName": "master", "mappedFileSizeCommitLog": "8388608", "maxHashSlotNum": "1000", "maxIndexNum": "4000",
    "pythonFilterWorkers": "2", "autoCreateTopicEnable": "false", "notifyConsumerIdsChangedEnable": "false",
    "shortPollingTimeMills": HOUR_MS, "transactionCheckInterval": HOUR_MS, "transactionTimeOut": HOUR_MS,
    "transactionCheckMax": "1000000", "flushIntervalCommitLog": HOUR_MS, "flushCommitLogThoroughInterval": HOUR_MS,
    "flushIntervalConsumeQueue": HOUR_MS, "flushConsumeQueueThoroughInterval": HOUR_MS,
}  # fmt: skip
SMALL: Final = {"mappedFileSizeCommitLog": "8388608", "maxHashSlotNum": "1000", "maxIndexNum": "4000"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Appliance]]:
    """Starts an appliance when it is first requested by name."""
    running: dict[str, Appliance] = {}
    with ExitStack() as stack:

        def start(name: str, settings: dict[str, str], *more: str) -> Appliance:
            if name not in running:
                data = tmp_path_factory.mktemp(name) / "data"
                running[name] = stack.enter_context(disposable(Appliance(data, settings=settings, more=more)))
            return running[name]

        yield start


@pytest.fixture(scope="module")
def master(run: Callable[..., Appliance], tmp_path_factory: pytest.TempPathFactory) -> Appliance:
    conf = tmp_path_factory.mktemp("name-server") / "namesrv.conf"
    conf.write_text("scanNotActiveBrokerInterval=50\n")
    return run("master", MASTER, "--nameserver-conf", str(conf))


@contextmanager
def _options(appliance: Appliance) -> Iterator[Options]:
    options = Options(appliance.broker, RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_BROKER_CONFIG)
    yield options
    options.restore()


@pytest.fixture
def options(master: Appliance) -> Iterator[Options]:
    with _options(master) as options:
        yield options


@pytest.fixture
def client(master: Appliance) -> Iterator[PlainClient]:
    with PlainClient(master.broker) as client:
        yield client


@pytest.fixture
def topic(client: PlainClient, key: str) -> str:
    """A topic of one queue for this option."""
    name = f"Of_{key}"
    create_topic(client, name)
    return name


def create_topic(client: PlainClient, name: str) -> None:
    create = {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
    }  # fmt: skip
    assert client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create).code == 0


def fill(client: PlainClient, topic: str, count: int, size: int = 10, properties: str = "") -> None:
    """Sends messages and waits until they can be pulled."""
    for _ in range(count):
        assert client.send(topic, b"x" * size, properties=properties).code == 0
    wait_until(lambda: client.pull(topic, count - 1).code == 0, DEADLINE_S, f"{count} messages in {topic}")


def heartbeat(client: PlainClient, client_id: str, group: str, *subscriptions: SubscriptionData) -> None:
    data = HeartbeatData(
        client_id, [ProducerData(group)], [ConsumerData(group, subscription_data_set=list(subscriptions))]
    )
    assert client.ask(RequestCode.HEART_BEAT, {}, data.encode()).code == 0


# ---- permission, topics, groups


@observes("brokerPermission")
def refuse_pulls(client: PlainClient, options: Options, topic: str) -> None:
    fill(client, topic, 1)
    options.change(brokerPermission=2)
    assert client.pull(topic).code == ResponseCode.NO_PERMISSION
    options.change(brokerPermission=6)
    assert client.pull(topic).code == ResponseCode.SUCCESS


@observes("autoCreateTopicEnable")
def make_topics_for_sends(client: PlainClient, options: Options) -> None:
    options.change(autoCreateTopicEnable="true")
    assert client.send("MadeBySend").code == ResponseCode.SUCCESS
    options.change(autoCreateTopicEnable="false")
    assert client.send("NotMadeBySend").code == ResponseCode.TOPIC_NOT_EXIST


@observes("autoCreateSubscriptionGroup")
def make_groups_for_pulls(client: PlainClient, options: Options, topic: str) -> None:
    options.change(autoCreateSubscriptionGroup="false")
    assert client.pull(topic, group="not-made").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    options.change(autoCreateSubscriptionGroup="true")
    assert client.pull(topic, group="made").code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


# ---- sending

PREPARED: Final = "TRAN_MSG\x01true\x02PGROUP\x01{}\x02UNIQ_KEY\x01U\x02"


@observes("rejectTransactionMessage")
def refuse_prepared_messages(client: PlainClient, options: Options, topic: str) -> None:
    options.change(rejectTransactionMessage="true")
    assert client.send(topic, properties=PREPARED.format("p"), f=4).code == ResponseCode.NO_PERMISSION
    options.change(rejectTransactionMessage="false")
    assert client.send(topic, properties=PREPARED.format("p"), f=4).code == ResponseCode.SUCCESS


@observes("startAcceptSendRequestTimeStamp")
def refuse_sends_before_a_time(client: PlainClient, options: Options, topic: str) -> None:
    assert client.send(topic).code == ResponseCode.SUCCESS
    options.change(startAcceptSendRequestTimeStamp=int((time.time() + 3600) * 1000))
    assert client.send(topic).code == ResponseCode.SYSTEM_ERROR
    options.change(startAcceptSendRequestTimeStamp=0)
    assert client.send(topic).code == ResponseCode.SUCCESS


@observes("storeReplyMessageEnable")
def store_no_replies(client: PlainClient, options: Options, topic: str) -> None:
    def reply_id() -> str:
        reply = {
            "a": "p", "b": topic, "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1, "h": 0, "j": 0, "k": "false", "m": "false",
            "i": "REPLY_TO_CLIENT\x01nobody\x02",
        }  # fmt: skip
        return client.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply, b"x").ext.get("msgId", "0")

    assert len(reply_id()) == 32
    options.change(storeReplyMessageEnable="false")
    assert reply_id() == "0"


@observes("maxMessageSize")
def refuse_large_messages(client: PlainClient, options: Options, topic: str) -> None:
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE):
        fields = {
            "producerGroup": "p", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0,
            "bornTimestamp": 1, "flag": 0, "properties": "", "reconsumeTimes": 0, "unitMode": "false", "batch": "false",
        }  # fmt: skip

        def send(code: RequestCode = code, fields: dict[str, Any] = fields) -> int:
            if code == RequestCode.SEND_MESSAGE_V2:
                return client.send(topic, b"x" * 2000).code
            return client.ask(code, fields, b"x" * 2000).code

        assert send() == ResponseCode.SUCCESS
        options.change(maxMessageSize=1000)
        assert send() == ResponseCode.MESSAGE_ILLEGAL
        options.change(maxMessageSize=4194304)


@observes("timerWheelEnable")
def refuse_messages_for_a_time(client: PlainClient, options: Options, topic: str) -> None:
    options.change(timerWheelEnable="false")
    assert client.send(topic, properties="TIMER_DELAY_SEC\x01100\x02").code == ResponseCode.SYSTEM_ERROR
    options.change(timerWheelEnable="true")
    assert client.send(topic, properties="TIMER_DELAY_SEC\x01100\x02").code == ResponseCode.SUCCESS


@observes("timerMaxDelaySec")
def refuse_messages_for_a_far_time(client: PlainClient, options: Options, topic: str) -> None:
    options.change(timerMaxDelaySec=10)
    assert client.send(topic, properties="TIMER_DELAY_SEC\x01100\x02").code == ResponseCode.MESSAGE_ILLEGAL
    options.change(timerMaxDelaySec=1000)
    assert client.send(topic, properties="TIMER_DELAY_SEC\x01100\x02").code == ResponseCode.SUCCESS


@observes("autoDeleteUnusedStats")
def forget_a_deleted_topics_figures(client: PlainClient, options: Options, topic: str) -> None:
    def is_counted() -> bool:
        figures = {"statsName": "TOPIC_PUT_NUMS", "statsKey": topic}
        return client.ask(RequestCode.VIEW_BROKER_STATS_DATA, figures).code == ResponseCode.SUCCESS

    for deletes in ("false", "true"):
        create_topic(client, topic)
        fill(client, topic, 1)
        assert is_counted()
        options.change(autoDeleteUnusedStats=deletes)
        assert client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}).code == ResponseCode.SUCCESS
        assert is_counted() == (deletes == "false")


# ---- transactions


@observes("transactionCheckInterval", "transactionTimeOut")
def ask_about_a_prepared_message(client: PlainClient, options: Options, topic: str, key: str) -> None:
    first, then = (
        ("transactionTimeOut", "transactionCheckInterval")
        if key.endswith("Interval")
        else ("transactionCheckInterval", key)
    )
    options.change(**{first: 20})
    heartbeat(client, f"prepares-{key}", f"prepares-{key}")
    assert client.send(topic, properties=PREPARED.format(f"prepares-{key}"), f=4).code == ResponseCode.SUCCESS
    options.change(**{then: 20})
    client.await_told(RequestCode.CHECK_TRANSACTION_STATE, DEADLINE_S)


@observes("transactionCheckMax")
def give_a_prepared_message_up(client: PlainClient, options: Options, topic: str) -> None:
    def given_up() -> int:
        where = {"topic": "TRANS_CHECK_MAX_TIME_TOPIC", "queueId": 0}
        return int(client.ask(RequestCode.GET_MAX_OFFSET, where).ext["offset"])

    before = given_up()
    options.change(transactionCheckInterval=20, transactionTimeOut=0)
    heartbeat(client, "gives-up", "gives-up")
    assert client.send(topic, properties=PREPARED.format("gives-up"), f=4).code == ResponseCode.SUCCESS
    options.change(transactionCheckMax=1)
    wait_until(lambda: given_up() > before, DEADLINE_S, "the message is put away")


# ---- pulling


@observes("longPollingEnable", "shortPollingTimeMills")
def answer_an_empty_pull_soon(client: PlainClient, options: Options, topic: str, key: str) -> None:
    changes = {"longPollingEnable": "false", "shortPollingTimeMills": "10"}
    options.change(**{name: value for name, value in changes.items() if name != key})
    options.change(**{key: changes[key]})
    answer = client.pull(topic, sysFlag=6, suspendTimeoutMillis=HOUR_MS, deadline_s=DEADLINE_S)
    assert answer.code == ResponseCode.PULL_NOT_FOUND


@observes("slaveReadEnable")
def suggest_a_slave(client: PlainClient, options: Options, topic: str) -> None:
    fill(client, topic, 2)
    options.change(accessMessageInMemoryMaxRatio=0)
    for _ in range(2):  # a pull prepares the hot path, which answers the next one
        assert client.pull(topic).ext["suggestWhichBrokerId"] == "0"
    options.change(slaveReadEnable="true")
    for _ in range(2):
        assert client.pull(topic).ext["suggestWhichBrokerId"] == "1"


@observes("notifyConsumerIdsChangedEnable")
def tell_members_of_each_other(master: Appliance, client: PlainClient, options: Options, topic: str) -> None:
    subscription = SubscriptionData.build(topic, "*")
    heartbeat(client, "first", "members", subscription)
    options.change(notifyConsumerIdsChangedEnable="true")
    with PlainClient(master.broker) as second:
        heartbeat(second, "second", "members", subscription)
        client.await_told(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, DEADLINE_S)
        options.change(notifyConsumerIdsChangedEnable="false")
        with PlainClient(master.broker) as third:
            heartbeat(third, "third", "members", subscription)
            client.runtime()  # anything it was notified of arrived before this answer
            assert client.told == []


@observes("enablePropertyFilter")
def select_by_expression(client: PlainClient, options: Options, topic: str) -> None:
    fill(client, topic, 1, properties="a\x011\x02")
    by_expression: dict[str, Any] = {"subscription": "a = 1", "expressionType": "SQL92"}
    assert client.pull(topic, **by_expression).code == ResponseCode.SYSTEM_ERROR
    options.change(enablePropertyFilter="true")
    assert client.pull(topic, **by_expression).code == ResponseCode.SUCCESS


@observes("filterSupportRetry")
def filter_retried_messages(client: PlainClient, options: Options, topic: str) -> None:
    options.change(enablePropertyFilter="true")
    expression = SubscriptionData(topic, "a = 1", sub_version=1, expression_type="SQL92")
    heartbeat(client, "retries", "retries", expression, SubscriptionData.build("%RETRY%retries", "*", sub_version=1))
    fill(client, "%RETRY%retries", 1, properties=f"a\x012\x02RETRY_TOPIC\x01{topic}\x02")
    assert client.pull("%RETRY%retries", group="retries", sysFlag=0, subVersion=1).code == ResponseCode.SUCCESS
    options.change(filterSupportRetry="true")
    assert client.pull("%RETRY%retries", group="retries", sysFlag=0, subVersion=1).code != ResponseCode.SUCCESS


@observes("pythonFilterTimeout")
def give_a_filter_function_less_time(master: Appliance, client: PlainClient, options: Options, topic: str) -> None:
    slow = "import time\ndef wants(message):\n    time.sleep(0.5)\n    return True\n"
    FunctionFolder(master.store / "config" / "filters").put("slow", slow)
    fill(client, topic, 1)
    by_function: dict[str, Any] = {"subscription": "slow", "expressionType": "PYTHON"}
    assert client.pull(topic, **by_function).code == ResponseCode.SUCCESS
    options.change(pythonFilterTimeout=50)
    assert client.pull(topic, **by_function).code == ResponseCode.SYSTEM_ERROR


def pulled(client: PlainClient, topic: str, **fields: Any) -> int:
    """How many messages a pull returns, on the plain path and on the hot path."""
    counts = {len(decode_records(client.pull(topic, **fields).body)) for _ in range(3)}
    assert len(counts) == 1, counts
    return counts.pop()


@observes("maxTransferCountOnMessageInMemory", "maxTransferCountOnMessageInDisk")
def carry_fewer_messages(client: PlainClient, options: Options, topic: str, key: str) -> None:
    fill(client, topic, 20)
    if key.endswith("Disk"):
        options.change(accessMessageInMemoryMaxRatio=0)
    options.change(enablePropertyFilter="true", **{key: 12})
    assert pulled(client, topic) == 12
    assert pulled(client, topic, subscription="a is null", expressionType="SQL92") == 12
    options.change(**{key: 5})
    assert pulled(client, topic) == 5
    assert pulled(client, topic, subscription="a is null", expressionType="SQL92") == 5


@observes("maxTransferBytesOnMessageInMemory", "maxTransferBytesOnMessageInDisk")
def carry_fewer_bytes(client: PlainClient, options: Options, topic: str, key: str) -> None:
    fill(client, topic, 8, size=1000)
    if key.endswith("Disk"):
        options.change(accessMessageInMemoryMaxRatio=0)
    options.change(enablePropertyFilter="true")
    assert pulled(client, topic) == 8
    options.change(**{key: 3700})
    assert pulled(client, topic) == 3
    assert pulled(client, topic, subscription="a is null", expressionType="SQL92") == 3


@observes("accessMessageInMemoryMaxRatio")
def count_messages_as_far_behind(master: Appliance, client: PlainClient, options: Options, topic: str) -> None:
    FunctionFolder(master.store / "config" / "filters").put("all", "def wants(message):\n    return True\n")
    fill(client, topic, 20)
    new_group = {"consumerGroup": "new", "topic": topic, "queueId": 0}
    options.change(enablePropertyFilter="true")
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"subscription": "a is null", "expressionType": "SQL92"},
        {"subscription": "all", "expressionType": "PYTHON"},
    )
    assert [pulled(client, topic, **kind) for kind in kinds] == [20, 20, 20]
    assert client.ask(RequestCode.QUERY_CONSUMER_OFFSET, new_group).code == ResponseCode.SUCCESS
    options.change(accessMessageInMemoryMaxRatio=0)
    assert [pulled(client, topic, **kind) for kind in kinds] == [8, 8, 8]
    # Makes the group begin where it requests, possibly at the end, and not at the first message.
    assert client.ask(RequestCode.QUERY_CONSUMER_OFFSET, new_group).code == ResponseCode.QUERY_NOT_FOUND


@observes("maxMsgsNumBatch", "defaultQueryMaxNum")
def find_fewer_by_key(client: PlainClient, options: Options, topic: str, key: str) -> None:
    is_id = key == "defaultQueryMaxNum"
    fill(client, topic, 6, properties="KEYS\x01k\x02UNIQ_KEY\x01id\x02")
    by_key = {
        "topic": topic, "key": "id" if is_id else "k", "maxNum": 32, "beginTimestamp": 0, "endTimestamp": 1 << 60,
        "_UNIQUE_KEY_QUERY": str(is_id).lower(),
    }  # fmt: skip

    def found() -> int:
        return len(decode_records(client.ask(RequestCode.QUERY_MESSAGE, by_key).body))

    wait_until(lambda: found() == 6, DEADLINE_S, "all of them are found")
    options.change(**{key: 2})
    assert found() == 2


# ---- flush


def is_flushed(client: PlainClient) -> bool:
    return client.runtime()["remainHowManyDataToFlush"] == "0 B"


@observes("flushIntervalCommitLog", "flushCommitLogTimed", "flushCommitLogLeastPages", "flushCommitLogThoroughInterval")
def sync_the_log_sooner(client: PlainClient, options: Options, topic: str, key: str) -> None:
    presets = {
        "flushIntervalCommitLog": {"flushCommitLogLeastPages": 0},
        "flushCommitLogTimed": {"flushCommitLogLeastPages": 0},
        "flushCommitLogLeastPages": {"flushIntervalCommitLog": 20},
        "flushCommitLogThoroughInterval": {"flushIntervalCommitLog": 20},
    }
    effective = {"flushIntervalCommitLog": 20, "flushCommitLogTimed": "false", "flushCommitLogLeastPages": 0}
    options.change(**presets[key])
    options.change(**{key: effective.get(key, 20)})
    # Twice: the change itself triggers one check by flush.
    for _ in range(2):
        assert client.send(topic, b"x" * (9000 if key == "flushCommitLogTimed" else 10)).code == ResponseCode.SUCCESS
        wait_until(lambda: is_flushed(client), DEADLINE_S, "the log is synced")


@observes("flushIntervalConsumeQueue", "flushConsumeQueueThoroughInterval")
def write_the_checkpoint_sooner(master: Appliance, options: Options, key: str) -> None:
    checkpoint = master.store / "checkpoint"
    both = ("flushIntervalConsumeQueue", "flushConsumeQueueThoroughInterval")
    options.change(**{other: 20 for other in both if other != key})
    options.change(**{key: 20})
    for _ in range(3):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        wait_until(lambda: checkpoint.exists() and checkpoint.stat().st_mtime_ns > before, DEADLINE_S, "written anew")  # noqa: B023


@observes("syncFlushTimeout")
def wait_less_for_the_disk(run: Callable[..., Appliance]) -> None:
    durable = run(
        "durable", SMALL | {"autoCreateTopicEnable": "true", "flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": HOUR_MS}
    )
    flush = durable.pid_of("flush")
    with PlainClient(durable.broker) as client, _options(durable) as options:
        assert client.send("Durable").code == ResponseCode.SUCCESS
        os.kill(flush, signal.SIGSTOP)
        try:
            options.change(syncFlushTimeout=50)
            assert client.send("Durable").code == ResponseCode.FLUSH_DISK_TIMEOUT
        finally:
            os.kill(flush, signal.SIGCONT)


@observes("slaveTimeout", "haSlaveFallbehindMax")
def wait_less_for_a_slave(run: Callable[..., Appliance], key: str) -> None:
    replicated = run(
        "replicated", SMALL | {"brokerRole": "SYNC_MASTER", "slaveTimeout": HOUR_MS, "haSendHeartbeatInterval": "100"}
    )
    ha_port = int(replicated.broker.rsplit(":", 1)[1]) + 1
    with (
        PlainClient(replicated.broker) as client,
        _options(replicated) as options,
        closing(socket.create_connection(("127.0.0.1", ha_port))) as slave,
    ):
        slave.sendall(bytes(8))  # it has no data and never reports more
        assert slave.recv(1)
        if key == "slaveTimeout":
            options.change(slaveTimeout=50)
            wait_until(
                lambda: client.send("Replicated").code == ResponseCode.FLUSH_SLAVE_TIMEOUT,
                DEADLINE_S,
                "the slave is waited for",
            )
        else:
            options.change(haSlaveFallbehindMax=1)
            assert client.send("Replicated").code == ResponseCode.SLAVE_NOT_AVAILABLE


@observes("offsetCheckInSlave")
def correct_offsets_at_a_slave(run: Callable[..., Appliance]) -> None:
    slave = run("slave", SMALL | {"brokerRole": "SLAVE", "brokerId": "1"})
    with PlainClient(slave.broker) as client, _options(slave) as options:
        assert client.pull("SELF_TEST_TOPIC", 5).code == ResponseCode.PULL_RETRY_IMMEDIATELY
        options.change(offsetCheckInSlave="true")
        assert client.pull("SELF_TEST_TOPIC", 5).code == ResponseCode.PULL_OFFSET_MOVED


# ---- the housekeeper


class Housekeeping:
    """A housekeeper in this process, over a log of five files that are four days old."""

    FILES = 5

    def __init__(self, root: Path, instance: Instance) -> None:
        self._root, self.instance = root, instance
        self._roles: list[RunningRole] = []

    def start(self, **settings: Any) -> StoreConfig:
        config = small_config(self._root, **settings)
        paths = config.paths()
        paths.make_directories()
        for number in range(self.FILES):
            path = path_of(paths.commit_log, number * LOG_FILE_SIZE)
            reserve_file(path, LOG_FILE_SIZE)
            old = time.time() - 96 * 3600
            os.utime(path, (old, old))
        self.write((self.FILES - 1) * LOG_FILE_SIZE + 5)
        self._roles.append(
            RunningRole(
                self.instance,
                "housekeeper",
                lambda context: housekeeping_daemon.run(context, config, paths, is_log_copied=False),
            )
        )
        wait_until(
            lambda: self.instance.health.read()["housekeeper"].state == "running", DEADLINE_S, "the housekeeper runs"
        )
        return config

    def write(self, offset: int) -> None:
        """Writes as log writer, flush and dispatch would."""
        LogPublisher(self.instance.control).wrote(offset, 1)
        FlushPublisher(self.instance.control).flushed(offset, 1)
        DispatchPublisher(self.instance.control).reput(offset, 1, 0)

    def await_deleted(self, files: int) -> None:
        wait_until(
            lambda: self.instance.control.min_offset >= files * LOG_FILE_SIZE, DEADLINE_S, f"{files} files are deleted"
        )

    def close(self) -> None:
        for role in self._roles:
            role.close()


@pytest.fixture
def housekeeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Housekeeping]:
    monkeypatch.setattr(cleaner, "_DISK_INTERVAL_MS", 20)
    monkeypatch.setattr(cleaner, "used_ratio", lambda _: 0.5)
    with running_instance(tmp_path) as instance:
        made = Housekeeping(tmp_path, instance)
        yield made
        made.close()


CLEANING: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "deleteWhen": ({"delete_when": ""}, ALL_HOURS),
    "fileReservedTime": ({"delete_when": ALL_HOURS, "file_reserved_time": 1000}, "72"),
    "diskMaxUsedSpaceRatio": ({"delete_when": ""}, "40"),
}
"""The housekeeper's settings with which nothing is deleted, and the value with which four files are."""


@observes(*CLEANING)
def delete_expired_files(housekeeping: Housekeeping, key: str) -> None:
    settings, value = CLEANING[key]
    housekeeping.start(**{"clean_resource_interval": 10, "delete_commit_log_files_interval": 1} | settings)
    assert housekeeping.instance.control.min_offset == 0
    change_options(housekeeping.instance, **{key: value})
    housekeeping.await_deleted(4)


@observes("cleanResourceInterval")
def look_for_expired_files_sooner(housekeeping: Housekeeping) -> None:
    # The first check, possibly at the start, finds nothing.
    housekeeping.start(
        clean_resource_interval=3_600_000, delete_when=ALL_HOURS, file_reserved_time=1000, delete_commit_log_files_interval=1
    )  # fmt: skip
    change_options(housekeeping.instance, fileReservedTime="72", cleanResourceInterval="10")
    housekeeping.await_deleted(4)


@observes("deleteCommitLogFilesInterval")
def delete_the_next_file_sooner(housekeeping: Housekeeping) -> None:
    housekeeping.start(clean_resource_interval=10, delete_when=ALL_HOURS, delete_commit_log_files_interval=3_600_000)
    housekeeping.await_deleted(1)
    change_options(housekeeping.instance, deleteCommitLogFilesInterval="1")
    housekeeping.await_deleted(4)


@observes("cleanFileForciblyEnable", "whenDiskFull")
def delete_unexpired_files(housekeeping: Housekeeping, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr(cleaner, "used_ratio", lambda _: 0.88)
    monkeypatch.setattr(forced_deletions, "_COUNTING_MS", 20)  # no broker runs here that would count the loss
    choices: dict[str, tuple[dict[str, Any], str]] = {
        "cleanFileForciblyEnable": ({"clean_file_forcibly_enable": False}, "true"),
        "whenDiskFull": ({"when_disk_full": "reject"}, "delete-oldest"),
    }
    settings, value = choices[key]
    housekeeping.start(
        clean_resource_interval=10, delete_when="", file_reserved_time=1000, delete_commit_log_files_interval=1, **settings
    )  # fmt: skip
    change_options(housekeeping.instance, **{key: value})
    housekeeping.await_deleted(1)


@observes("flushConsumeQueueLeastPages")
def sync_a_queue_sooner(housekeeping: Housekeeping, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    really = os.fdatasync

    def note(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        really(fd)

    monkeypatch.setattr(os, "fdatasync", note)
    config = housekeeping.start(
        delete_when="", flush_interval_consume_queue=1, flush_consume_queue_thorough_interval=3_600_000,
        flush_consume_queue_least_pages=1000,
    )  # fmt: skip
    builder, instance = LogBuilder(config), housekeeping.instance
    row = instance.queue_table_writer().add(b"T", 0)
    for _ in range(450):  # 20 bytes each: two pages
        put_entry(config.paths(), builder.append())
    instance.queue_table_writer().update(row, 0, 450, builder.offset)
    instance.changed_rows_writer().add([row])
    change_options(instance, flushConsumeQueueLeastPages="1")
    wait_until(lambda: any("consumequeue" in path for path in synced), DEADLINE_S, "the queue is synced")


# ---- the name server


@pytest.fixture
def name_server_options(master: Appliance) -> Iterator[Options]:
    options = Options(master.name_server, RequestCode.GET_NAMESRV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG)
    yield options
    options.restore()


@observes("orderMessageEnable")
def tell_the_queues_of_an_ordered_topic(master: Appliance, name_server_options: Options, topic: str) -> None:
    with PlainClient(master.name_server) as asking:
        ordered = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": "master:1"}
        assert asking.ask(RequestCode.PUT_KV_CONFIG, ordered).code == ResponseCode.SUCCESS

        def route() -> bytes:
            return asking.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).body

        assert b"master:1" not in route()
        name_server_options.change(orderMessageEnable="true")
        assert b"master:1" in route()


@observes("brokerChannelExpiredTime")
def drop_a_silent_broker(master: Appliance, name_server_options: Options) -> None:
    with PlainClient(master.name_server) as asking:

        def is_known() -> bool:
            return "master" in fastjson.loads(asking.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)["brokerAddrTable"]

        assert is_known()
        name_server_options.change(brokerChannelExpiredTime=1)
        wait_until(lambda: not is_known(), DEADLINE_S, "the broker is dropped")
        name_server_options.change(brokerChannelExpiredTime=120_000)
        wait_until(is_known, DEADLINE_S, "the broker registers again")


# ---- all of them

MARKED: Final = sorted(
    {
        key
        for configuration in (BrokerConfig, StoreConfig, NameServerConfig)
        for key, field in keys_of(configuration).items()
        if is_changeable_by_request(field)
    }
)


def test_every_option_marked_as_changeable_has_an_observation() -> None:
    assert set(re.findall(r"^\| `(\w+)`\* \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) == set(MARKED)
    assert set(MARKED) == OBSERVATIONS.keys()


@pytest.mark.parametrize("key", MARKED)
def test_changed_option_takes_effect(key: str, request: pytest.FixtureRequest) -> None:
    observation = OBSERVATIONS[key]
    observation(**{name: request.getfixturevalue(name) for name in inspect.signature(observation).parameters})
