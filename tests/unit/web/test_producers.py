import asyncio
from typing import Any

import pytest

from headrace.client.settings import ClientConfig
from headrace.errors import RemotingError
from headrace.protocol.bodies import ProducerTableInfo
from headrace.protocol.bodies.connections import ProducerInfo
from headrace.protocol.language import LanguageCode
from web.cluster.cluster import Cluster
from web.errors import QueryFailed
from web.pages.producers import ProducerPages, duplicates_of, rows_of
from web.routes import Access, View, Visit


def one(client: str, address: str, seen: int = 5) -> ProducerInfo:
    return ProducerInfo(client, f"/{address}", LanguageCode.JAVA, 399, seen)


def test_client_with_a_connection_to_each_broker_is_one_row() -> None:
    found = {
        "broker-a": ProducerTableInfo({"shop": [one("c1", "10.0.0.1:5001", 7)], "_INNER_TRACE_PRODUCER-x": []}),
        "broker-b": ProducerTableInfo({"shop": [one("c1", "10.0.0.1:5002"), one("c2", "10.0.0.2:5000")]}),
    }
    first, second = rows_of(found)
    assert (first.group, first.client, first.brokers) == ("shop", "c1", ["broker-a", "broker-b"])
    assert (first.addresses, first.last_seen) == (["10.0.0.1:5001", "10.0.0.1:5002"], 7)
    assert (second.client, second.language, second.kind) == ("c2", "JAVA", "normal")
    assert duplicates_of(found) == []


def test_client_id_with_two_connections_to_a_broker_is_a_duplicate() -> None:
    table = ProducerTableInfo({"shop": [one("same", "10.0.0.1:1")], "bank": [one("same", "10.0.0.2:1")]})
    (row,) = duplicates_of({"broker-a": table})
    assert (row.client, row.addresses, row.groups) == ("same", ["10.0.0.1:1", "10.0.0.2:1"], ["bank", "shop"])
    both = ProducerTableInfo({"shop": [one("same", "10.0.0.1:1")], "bank": [one("same", "10.0.0.1:1")]})
    assert duplicates_of({"broker-a": both}) == [], "one connection serves several groups"


class Answers:
    """Stands for the Admin: two masters, of which some do not answer."""

    def __init__(self, *silent: str) -> None:
        self.silent = silent

    async def masters(self) -> dict[str, str]:
        return {"broker-a": "a:1", "broker-b": "b:1"}

    async def producers(self, address: str) -> ProducerTableInfo:
        if address in self.silent:
            raise RemotingError("no answer")
        return ProducerTableInfo({"shop": [one("c1", "10.0.0.1:1")]})


def shown(answers: Answers) -> View:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = answers
    cluster.admin = stand_in
    return asyncio.run(ProducerPages(cluster).show(Visit("ann", Access.VIEWER, "")))


def test_broker_that_does_not_answer_is_a_problem_and_none_at_all_an_error() -> None:
    view = shown(Answers("b:1"))
    assert view.problems == ["broker-b (b:1): no answer"]
    assert len(view.tables[0].rows) == 1
    with pytest.raises(QueryFailed, match="broker-a"):
        shown(Answers("a:1", "b:1"))
