"""Pulls that functions select: what is shown and answered, what is held, and what changes while a pull waits."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.clients.client_processor import ClientProcessor
from broker.filtering.filter_functions import FilterFunctions
from broker.filtering.pull_filters import PullFilters
from broker.filtering.python_filters import PythonFilterFailed
from broker.pulling.selectors import FunctionReader
from headrace.model.message import MessageExt
from headrace.model.subscription import SubscriptionData
from headrace.protocol.bodies import CheckClientRequestBody, ConsumerData, HeartbeatData
from headrace.protocol.record import decode_record, decode_records
from headrace.protocol.remoting_command import RemotingCommand, SerializeType
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.endpoint import Endpoint
from headrace.remoting.handlers import HandlerTable
from store.filter.python.functions import FunctionFolder
from store.query.function_filtered import FunctionFilteredGetter
from support.small_broker import Peer, SmallBroker, pull_fields, send_fields

OWN: dict[str, Any] = {"sysFlag": 4, "expressionType": "PYTHON", "subscription": "f"}
HOLD: dict[str, Any] = {"suspendTimeoutMillis": 15000}


class HereAndNow(FilterFunctions):
    """Functions that run here, so that a test sees what they were shown; the workers are tested elsewhere."""

    def __init__(self, folder: FunctionFolder, config: Any) -> None:
        super().__init__(folder, [Path("nobody")], config, folder.path / "report", lambda: self.now)
        self.now = 0.0
        self.shown: list[int] = []
        self.wants: Callable[[MessageExt], bool] = lambda message: message.body.startswith(b"x")
        self.meanwhile: Callable[[], object] = lambda: None

    async def match(self, name: str, show: Callable[[], list[bytes]]) -> list[bool]:  # noqa: ARG002  (there is one)
        records = show()
        self.shown.append(len(records))
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return [self.wants(decode_record(record)) for record in records]


class JudgingBroker(SmallBroker):
    """A small broker with functions, as the composition root gives them to pulls and heartbeats."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self.folder = FunctionFolder(self.paths.config_file("filters"))
        self.folder.put("f", "def wants(message): ...")
        self.functions = HereAndNow(self.folder, self.config)
        filters = PullFilters(self.filters, self.config, self.functions)
        judged = FunctionFilteredGetter(self.sources)
        main = HandlerTable()
        self.sends.register(main, HandlerTable())
        self.make_pulls(filters, FunctionReader(self.functions, judged, self.warm)).register(main)
        ClientProcessor(self.config, self.topics, self.groups, self.clients, filters).register(main)
        self._main = Endpoint(self.loop, main, self._deadlines, on_close=self._closed)

    def store(self, *bodies: str) -> None:
        client = self.connect(41000)
        for body in bodies:
            assert client.send(body.encode()).code == ResponseCode.SUCCESS
        self.dispatch()

    def bell(self) -> None:
        """What a bell does with the pulls that wait, to the end."""
        self.let_go(lambda: self.held.arrived([("T", 0)]))

    def let_go(self, work: Callable[[], object]) -> None:
        self.run(work)
        for _ in range(10):
            self.run(lambda: None)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[JudgingBroker]:
    broker = JudgingBroker(tmp_path / "store")
    broker.topic()
    yield broker
    broker.close()


@pytest.fixture
def client(broker: JudgingBroker) -> Peer:
    return broker.connect()


def bodies(answer: RemotingCommand) -> list[str]:
    return [record.body.decode() for record in decode_records(answer.body)]


def next_of(answer: RemotingCommand) -> int:
    return int(answer.ext["nextBeginOffset"])


def subscribe(client: Peer, expression: str, expression_type: str, version: int) -> None:
    data = SubscriptionData.build("T", expression, expression_type, version)
    heartbeat = HeartbeatData("cid", [], [ConsumerData("CG", subscription_data_set=[data])])
    assert client.ask(RequestCode.HEART_BEAT, None, heartbeat.encode()).code == ResponseCode.SUCCESS


def hold(client: Peer, offset: int, **fields: Any) -> None:
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(offset, **(OWN | {"sysFlag": 6} | HOLD | fields)))
    assert client.received() == []


def test_pull_returns_selected_messages_and_the_next_offset_after_all_examined_ones(
    broker: JudgingBroker, client: Peer
) -> None:
    broker.store("x0", "1", "x2", "3", "4")
    answer = client.pull(0, **OWN)
    assert (answer.code, bodies(answer), next_of(answer)) == (ResponseCode.SUCCESS, ["x0", "x2"], 5)
    answer = client.pull(3, **OWN)
    assert (answer.code, bodies(answer), next_of(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, [], 5)
    assert broker.functions.shown == [5, 2]


def test_at_most_the_requested_number_is_returned_and_the_rest_by_the_next_pull(
    broker: JudgingBroker, client: Peer
) -> None:
    broker.store("x0", "1", "x2", "x3", "4", "x5")
    answer = client.pull(0, maxMsgNums=2, **OWN)
    assert (bodies(answer), next_of(answer)) == (["x0", "x2"], 3)
    answer = client.pull(3, maxMsgNums=2, **OWN)
    assert (bodies(answer), next_of(answer)) == (["x3", "x5"], 6)


def test_answer_ends_at_the_limits_of_a_pull(tmp_path: Path) -> None:
    broker = JudgingBroker(tmp_path / "store", store={"max_transfer_bytes_on_message_in_memory": 1000})
    try:
        broker.topic()
        client = broker.connect()
        broker.store(*("x" * 300 for _ in range(5)))
        answer = client.pull(0, **OWN)
        assert (len(bodies(answer)), next_of(answer)) == (2, 2)
    finally:
        broker.close()


def test_offset_carried_by_the_pull_is_committed(broker: JudgingBroker, client: Peer) -> None:
    broker.store("x0", "1")
    client.pull(1, **(OWN | {"sysFlag": 5, "commitOffset": 1}))
    assert broker.offsets.query("CG", "T", 0) == 1


def test_held_pull_is_answered_only_by_selected_messages(broker: JudgingBroker, client: Peer) -> None:
    broker.store("x0")
    hold(client, 1)
    broker.store("1", "2")
    broker.bell()
    assert client.received() == []
    broker.store("3", "x4")
    broker.bell()
    (answer,) = client.received()
    assert (answer.code, bodies(answer), next_of(answer)) == (ResponseCode.SUCCESS, ["x4"], 5)
    assert answer.serialize_type is SerializeType.JSON
    # None was shown twice.
    assert broker.functions.shown == [2, 2]


def test_message_arriving_while_the_function_is_busy_is_evaluated_without_another_bell(
    broker: JudgingBroker, client: Peer
) -> None:
    broker.store("x0")
    hold(client, 1)
    broker.store("1")
    broker.functions.meanwhile = stores(broker, "x2")
    broker.bell()
    (answer,) = client.received()
    assert bodies(answer) == ["x2"]


def stores(broker: JudgingBroker, body: str) -> Callable[[], object]:
    """Stores a message from within the loop: what another connection's request would do."""
    data = RemotingCommand(
        RequestCode.SEND_MESSAGE_V2,
        opaque=1,
        ext_fields={key: str(value) for key, value in send_fields().items()},
        body=body.encode(),
    ).encode()
    other = broker.connect(42000)

    def store() -> None:
        other.connection.channel.data_received(data)
        broker.dispatch()

    return store


def test_held_pull_returns_the_next_offset_at_its_deadline(broker: JudgingBroker, client: Peer) -> None:
    broker.store("x0")
    hold(client, 1)
    broker.store("1", "2")
    broker.bell()
    broker.let_go(lambda: broker.held.expire(1e9))
    (answer,) = client.received()
    assert (answer.code, next_of(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 3)
    assert broker.held.size == 0


def test_new_version_of_the_function_examines_skipped_messages_again(broker: JudgingBroker, client: Peer) -> None:
    broker.store("x0")
    hold(client, 1)
    broker.store("1")
    broker.bell()
    broker.functions.wants = lambda _message: True
    broker.folder.put("f", "def wants(message): ...")
    broker.functions.now += 10
    broker.store("2")
    broker.bell()
    (answer,) = client.received()
    assert bodies(answer) == ["1", "2"]


def test_removal_of_a_function_refuses_its_held_pulls(broker: JudgingBroker, client: Peer) -> None:
    broker.store("x0")
    hold(client, 1)
    broker.folder.remove("f")
    broker.functions.now += 10
    broker.store("x1")
    broker.bell()
    (answer,) = client.received()
    assert (answer.code, "filter function f does not exist" in str(answer.remark)) == (ResponseCode.SYSTEM_ERROR, True)


def test_failed_function_refuses_its_pull_and_keeps_the_connection(broker: JudgingBroker, client: Peer) -> None:
    broker.store("x0")

    def fail(_message: MessageExt) -> bool:
        raise PythonFilterFailed("f", "took longer than 2 s and was ended")

    broker.functions.wants = fail
    answer = client.pull(0, **OWN)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "the filter function f took longer than 2 s and was ended" in str(answer.remark)
    assert bodies(client.pull(0, subscription="*")) == ["x0"]


def test_held_pull_is_retried_after_a_change_to_or_from_functions(broker: JudgingBroker, client: Peer) -> None:
    broker.store("x0")
    by_heartbeat = {"sysFlag": 2, "expressionType": None, "subscription": None}
    for version, (first, second) in enumerate(((("*", "TAG"), ("f", "PYTHON")), (("f", "PYTHON"), ("*", "TAG"))), 1):
        subscribe(client, *first, version * 10)
        client.received()
        hold(client, version, **by_heartbeat)
        subscribe(client, *second, version * 10 + 1)
        client.received()
        broker.store("1")
        broker.bell()
        (answer,) = client.received()
        assert (answer.code, bodies(answer), next_of(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, [], version)


def test_function_subscriptions_are_validated_and_are_not_sql_filters(broker: JudgingBroker, client: Peer) -> None:
    def check(name: str) -> RemotingCommand:
        body = CheckClientRequestBody("cid", "CG", SubscriptionData.build("T", name, "PYTHON", 1)).encode()
        return client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body)

    assert check("f").code == ResponseCode.SUCCESS
    assert "filter function g does not exist" in str(check("g").remark)
    broker.store("x0", "1")
    subscribe(client, "f", "PYTHON", 1)
    assert broker.filters.find("T", "CG") is None
    client.received()
    assert bodies(client.pull(0, sysFlag=0, subVersion=1)) == ["x0"]
