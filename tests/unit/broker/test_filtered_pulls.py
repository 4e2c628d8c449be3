"""SQL92 through requests: heartbeats register, pulls are filtered, held and refused, a client's configuration is checked."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model.subscription import SubscriptionData
from headrace.protocol.bodies import CheckClientRequestBody, ConsumerData, HeartbeatData
from headrace.protocol.record import decode_records
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from store.filter.bit_map import BitMapCalculator
from store.filter.bloom import BloomFilter
from store.filter.message_filter import ExpressionFilter
from store.query.filtered import FilteredGetter
from support.small_broker import Peer, SmallBroker, pull_fields

OWN: dict[str, Any] = {"sysFlag": 4, "expressionType": "SQL92"}
FROM_HEARTBEAT: dict[str, Any] = {"sysFlag": 0, "expressionType": "SQL92", "subVersion": 1}
HOLD: dict[str, Any] = {"suspendTimeoutMillis": 15000}


class FilteringBroker(SmallBroker):
    """A small broker that selects by SQL92."""

    def __init__(self, root: Path, broker: dict[str, Any] | None = None, store: dict[str, Any] | None = None) -> None:
        super().__init__(root, {"enable_property_filter": True} | (broker or {}), store)
        if self.config.enable_calc_filter_bit_map:
            path = self.paths.config_file("consumerFilter.json")
            self.reput._entries._bit_map = BitMapCalculator(path, BloomFilter())


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., FilteringBroker]]:
    made: list[FilteringBroker] = []

    def make(**options: Any) -> FilteringBroker:
        made.append(FilteringBroker(tmp_path / f"store{len(made)}", **options))
        made[-1].topic()
        return made[-1]

    yield make
    for broker in made:
        broker.close()


@pytest.fixture
def broker(make_broker: Callable[..., FilteringBroker]) -> FilteringBroker:
    return make_broker()


@pytest.fixture
def client(broker: FilteringBroker) -> Peer:
    return broker.connect()


def fill(broker: SmallBroker, client: Peer, *prices: int) -> None:
    for price in prices:
        assert client.send(b"%d" % price, i=f"price\x01{price}\x02city\x01Rome").code == ResponseCode.SUCCESS
    broker.dispatch()


def subscribe(client: Peer, expression: str, version: int = 1) -> None:
    data = SubscriptionData.build("T", expression, "SQL92", version)
    heartbeat = HeartbeatData("cid", [], [ConsumerData("CG", subscription_data_set=[data])])
    assert client.ask(RequestCode.HEART_BEAT, None, heartbeat.encode()).code == ResponseCode.SUCCESS


def prices(answer: RemotingCommand) -> list[int]:
    return [int(record.body) for record in decode_records(answer.body)]


def test_pull_returns_messages_selected_by_its_expression(broker: FilteringBroker, client: Peer) -> None:
    fill(broker, client, 5, 50, 7, 70)
    answer = client.pull(subscription="price > 10 AND city = 'Rome'", **OWN)
    assert (answer.code, prices(answer), answer.ext["nextBeginOffset"]) == (ResponseCode.SUCCESS, [50, 70], "4")
    nothing = client.pull(subscription="price > 100", **OWN)
    assert (nothing.code, nothing.remark, nothing.ext["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "4")


def test_pull_by_subscription_returns_messages_selected_by_the_heartbeats_expression(
    broker: FilteringBroker, client: Peer
) -> None:
    fill(broker, client, 5, 50, 7, 70)
    subscribe(client, "price < 10")
    assert prices(client.pull(**FROM_HEARTBEAT)) == [5, 7]
    subscribe(client, "price > 10", 2)
    assert prices(client.pull(**FROM_HEARTBEAT)) == [50, 70]


@pytest.mark.parametrize(
    ("enabled", "expression", "heartbeat", "code"),
    [
        (True, "price >", None, 23),
        (True, "", None, 23),
        (False, "price > 10", None, 1),
        (True, None, "price >", 27),
        (True, None, "price > 10", 0),
        (False, None, "price > 10", 1),
        (False, None, "price >", 27),
    ],
)
def test_pull_with_an_unusable_filter_is_refused(
    make_broker: Callable[..., FilteringBroker], enabled: bool, expression: str | None, heartbeat: str | None, code: int
) -> None:
    broker = make_broker(broker={"enable_property_filter": enabled})
    client = broker.connect()
    fill(broker, client, 50)
    if heartbeat is not None:
        subscribe(client, heartbeat)
    answer = client.pull(**FROM_HEARTBEAT) if expression is None else client.pull(subscription=expression, **OWN)
    assert answer.code == code
    assert (answer.ext == {}) == (code != 0)


def test_pull_newer_than_the_registered_filter_is_refused(broker: FilteringBroker, client: Peer) -> None:
    subscribe(client, "price > 10", 5)
    broker.filters.register("CG", [SubscriptionData.build("T", "price > 10", "SQL92", 5)])
    found = broker.filters.find("T", "CG")
    assert found is not None
    found.client_version = 4
    assert client.pull(**(FROM_HEARTBEAT | {"subVersion": 5})).code == ResponseCode.FILTER_DATA_NOT_LATEST


def test_held_pull_waits_for_a_selected_message(broker: FilteringBroker, client: Peer) -> None:
    other = broker.connect(40001)
    fill(broker, other, 50)
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(1, subscription="price > 10", **(OWN | HOLD | {"sysFlag": 6})))
    assert broker.held.size == 1
    for price, answered in ((5, False), (7, False), (70, True)):
        fill(broker, other, price)
        broker.run(lambda: broker.held.arrived([("T", 0)]))
        answers = client.received()
        assert bool(answers) == answered
    assert (prices(answers[0]), answers[0].ext["nextBeginOffset"]) == ([70], "4")


def test_held_pull_returns_the_next_offset_after_unwanted_messages_at_its_deadline(
    broker: FilteringBroker, client: Peer
) -> None:
    other = broker.connect(40001)
    subscribe(client, "price > 10")
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(0, **(FROM_HEARTBEAT | HOLD | {"sysFlag": 2})))
    fill(broker, other, 5, 7)
    broker.run(lambda: broker.held.arrived([("T", 0)]))
    assert client.received() == []
    broker.run(lambda: broker.held.expire(broker.loop.time() + 16))
    (answer,) = client.received()
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "2")


def test_held_pull_follows_the_new_expression_of_its_group(broker: FilteringBroker, client: Peer) -> None:
    other = broker.connect(40001)
    subscribe(client, "price > 10")
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(0, **(FROM_HEARTBEAT | HOLD | {"sysFlag": 2})))
    fill(broker, other, 5, 7)
    broker.run(lambda: broker.held.arrived([("T", 0)]))
    subscribe(client, "price < 6", 2)
    fill(broker, other, 8)
    broker.run(lambda: broker.held.arrived([("T", 0)]))
    (answer,) = client.received()
    assert prices(answer) == [5]


def is_dead(broker: FilteringBroker) -> bool:
    found = broker.filters.find("T", "CG")
    assert found is not None
    return found.is_dead


def test_filter_of_a_group_without_consumers_is_inactive(broker: FilteringBroker, client: Peer) -> None:
    subscribe(client, "price > 10")
    assert not is_dead(broker)
    client.close()
    assert is_dead(broker)
    subscribe(broker.connect(40001), "price > 10")
    assert not is_dead(broker)


@pytest.mark.parametrize(
    ("expression_type", "expression", "code", "says"),
    [
        ("TAG", "a || b", 0, None),
        ("SQL92", "price > 10", 0, None),
        ("SQL92", "price > 10 AND", 23, "line 1, column 15"),
        ("FOO", "price", 23, "FOO"),
    ],
)
def test_subscription_of_a_client_is_validated(
    client: Peer, expression_type: str, expression: str, code: int, says: str | None
) -> None:
    data = SubscriptionData.build("T", expression, expression_type)
    answer = client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, CheckClientRequestBody("cid", "CG", data).encode())
    assert answer.code == code
    assert says is None or says in str(answer.remark)


class Counting:
    """A filter that counts the records it is asked about."""

    def __init__(self, inner: ExpressionFilter) -> None:
        self.inner = inner
        self.reads_units = inner.reads_units
        self.match_entry = inner.match_entry
        self.read = 0

    def match_record(self, view: memoryview, position: int) -> bool:
        self.read += 1
        return self.inner.match_record(view, position)


def test_messages_excluded_by_a_bit_map_are_not_read(make_broker: Callable[..., FilteringBroker]) -> None:
    broker = make_broker(broker={"enable_calc_filter_bit_map": True}, store={"enable_consume_queue_ext": True})
    client = broker.connect()
    subscribe(client, "price > 10")
    found = broker.filters.find("T", "CG")
    assert found is not None
    found.born_time -= 2000  # a second later
    fill(broker, client, 5, 50, 7, 70)
    ready = broker.filters.filter_of("T", "CG")
    assert ready is not None
    assert ready.reads_units
    assert prices(client.pull(**FROM_HEARTBEAT)) == [50, 70]
    assert prices(client.pull(subscription="price < 10", **OWN)) == [5, 7]
    counted = Counting(ready)
    getter = FilteredGetter(broker.sources, broker.paths)
    getter.get("T", 0, 0, 32, counted)
    assert counted.read == 2
