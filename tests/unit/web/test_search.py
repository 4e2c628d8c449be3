"""Search of everything, over an Admin and a sample that answer from tables."""

import asyncio
import time
from typing import Any

import pytest

from headrace import MessageExt, RequestTimeout, SubscriptionGroupConfig
from headrace.client.settings import ClientConfig
from web.cluster.cluster import Cluster
from web.errors import Invalid
from web.pages.search import SearchPages
from web.routes import Access, View, Visit
from web.sampling.sample import BrokerSample, Member, Sample

ID = "0A00000100002A9F0000000000000000"


class Answers:
    """Stands for the Admin and for the Sampler."""

    def __init__(self) -> None:
        self.names = ["Orders", "OrdersArchive", "billing", "%RETRY%orders"]
        self.keyed: dict[str, list[MessageExt] | Exception] = {}
        self.searched: list[str] = []
        self.members = (
            Member("shop", "10.0.0.7@12", "10.0.0.7:4000"),
            Member("shop", "order-worker", "10.0.0.8:4000"),
            Member("makers", "order-maker", "/10.0.0.9:1", is_producer=True),
        )
        self.is_late = False

    async def topics(self) -> list[str]:
        return self.names

    async def masters(self) -> dict[str, str]:
        return {"broker-a": "n:1"}

    async def group_configs(self, _address: str) -> dict[str, SubscriptionGroupConfig]:
        return {"order-billing": SubscriptionGroupConfig("order-billing"), "shop": SubscriptionGroupConfig("shop")}

    async def query_messages(self, topic: str, key: str, _most: int, *, decompress: bool) -> list[MessageExt]:
        assert not decompress
        self.searched.append(topic)
        answer = self.keyed.get(topic, [])
        if isinstance(answer, Exception):
            raise answer
        return [one for one in answer if key in one.keys]

    async def query_by_unique_id(self, topic: str, message_id: str, **_: bool) -> MessageExt | None:
        self.searched.append(topic)
        return message(topic, "", 5) if (topic, message_id) == ("billing", ID) else None

    async def cluster_info(self) -> Any:
        from headrace.protocol.bodies import ClusterInfo  # noqa: PLC0415

        return ClusterInfo()

    async def for_page(self) -> Sample | None:
        if self.is_late:
            return None
        return Sample(time.time(), (BrokerSample("C", "broker-a", 0, "n:1", members=self.members),))


def message(topic: str, keys: str, stored_at: int) -> MessageExt:
    return MessageExt(topic, b"x", properties={"KEYS": keys}, store_timestamp=stored_at, queue_offset=stored_at)


def search(answers: Answers, text: str, **arguments: str) -> View:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = answers
    cluster.admin = stand_in
    pages = SearchPages(cluster, stand_in)
    return asyncio.run(pages.show(Visit("", Access.VIEWER, "", {}, {"q": text, **arguments})))


def found(view: View) -> list[tuple[str, str]]:
    return [(row.kind, row.name) for row in view.tables[0].rows]


def test_names_that_are_the_text_come_first_then_those_that_begin_with_it() -> None:
    view = search(Answers(), "orders")
    assert found(view) == [("topic", "Orders"), ("topic", "OrdersArchive"), ("topic", "%RETRY%orders")]
    assert [row.path for row in view.tables[0].rows][2] == "/topics/%25RETRY%25orders"


def test_groups_and_clients_are_found_by_name_and_address() -> None:
    view = search(Answers(), "order-")
    assert found(view) == [
        ("consumer group", "order-billing"),
        ("producer", "order-maker"),
        ("client", "order-worker"),
    ]
    assert found(search(Answers(), "10.0.0.7:4")) == [("client", "10.0.0.7@12")]
    [client] = search(Answers(), "10.0.0.7:4").tables[0].rows
    assert client.address.startswith("10.0.0.7:4")
    assert client.address not in client.detail


def test_message_id_is_looked_up_in_topics() -> None:
    [row] = search(Answers(), ID).tables[0].rows
    assert (row.kind, row.detail, row.stored_at) == ("message", "billing", 5)


def test_text_that_nothing_has_is_looked_up_as_a_key() -> None:
    answers = Answers()
    answers.keyed = {"Orders": [message("Orders", "k1", 3)], "billing": [message("billing", "k1 k2", 4)]}
    view = search(answers, "k1")
    assert [(row.detail, row.keys, row.stored_at) for row in view.tables[0].rows] == [
        ("billing", ["k1", "k2"], 4),
        ("Orders", ["k1"], 3),
    ]
    assert sorted(answers.searched) == ["%RETRY%orders", "Orders", "OrdersArchive", "billing"]
    assert view.data["are_keys_searched"]


def test_key_is_found_in_dead_letters_and_retries_too() -> None:
    answers = Answers()
    answers.names.append("%DLQ%orders")
    answers.keyed = {
        topic: [message(topic, "k1", at)] for at, topic in enumerate(["%DLQ%orders", "%RETRY%orders", "Orders"])
    }
    [table] = search(answers, "k1").tables
    (detail,) = (column for column in table.columns if column.key == "detail")
    assert detail.says is not None
    assert [detail.says(row) for row in table.rows] == [
        None,
        ("retry of {group}", {"group": "orders"}),
        ("dead letter of {group}", {"group": "orders"}),
    ]
    client = search(answers, "10.0.0.7:4").tables[0].rows[0]
    assert detail.says(client) is None


def test_keys_are_searched_on_request_only_if_something_else_was_found() -> None:
    answers = Answers()
    answers.keyed = {"Orders": [message("Orders", "shop", 3)]}
    assert found(search(answers, "shop")) == [("consumer group", "shop")]
    assert answers.searched == []
    assert len(found(search(answers, "shop", keys="yes"))) == 2


def test_search_of_a_key_is_bounded_and_says_so() -> None:
    answers = Answers()
    answers.names = [f"T{number:04}" for number in range(2_000)]
    view = search(answers, "k1")
    assert len(answers.searched) == 200
    assert (view.data["key_topics"], view.data["all_topics"], view.problems) == (200, 2_000, [])
    [problem] = search(answers, ID).problems
    assert str(problem).startswith("200 of 2000 topics were searched, and none has a message with the id")


def test_topic_that_cannot_be_searched_is_a_problem() -> None:
    answers = Answers()
    answers.keyed = {"Orders": RequestTimeout("broker-a did not answer")}
    view = search(answers, "k1")
    assert [str(problem) for problem in view.problems] == [
        "messages: 1 of 4 topics could not be searched: broker-a did not answer"
    ]


def test_clients_that_cannot_be_read_in_time_are_a_problem() -> None:
    answers = Answers()
    answers.is_late = True
    view = search(answers, "orders")
    assert len(found(view)) == 3
    assert [str(problem) for problem in view.problems] == ["clients: the brokers did not answer within 4 s"]


def test_empty_text_asks_for_one_and_a_long_one_is_refused() -> None:
    assert search(Answers(), " ").tables == ()
    with pytest.raises(Invalid, match="256 characters"):
        search(Answers(), "x" * 256)
