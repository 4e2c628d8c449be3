"""SQL92 filters used by the official client, at both brokers, with and without bitmaps."""

import time
from collections.abc import Iterator

import pytest

from support.client import Client, Message, assert_exactly
from support.java import JavaError
from support.quick_servers import SERVERS
from support.reference import disposable
from support.servers import Server

SETTINGS = {
    "plain": {"enablePropertyFilter": "true"},
    "bitmaps": {"enablePropertyFilter": "true", "enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"},
}


@pytest.fixture(scope="module", params=[(make, kind) for make in SERVERS for kind in SETTINGS], ids="-".join)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    make, kind = request.param
    with disposable(SERVERS[make](tmp_path_factory.mktemp(make) / "data", settings=SETTINGS[kind])) as server:
        yield server


def selected(messages: list[Message], least: int) -> list[Message]:
    return [message for message in messages if int(message["properties"]["tens"]) >= least]


def test_consumer_receives_what_its_expression_selects(client: Client) -> None:
    client.create_topic("Sql", 2)
    client.call(
        "consume",
        consumer="sql",
        topic="Sql",
        kind="concurrent",
        group="sql-group",
        sql="tens >= 3 AND TAGS IS NOT NULL",
    )
    client.await_assigned("sql", 2)
    sent: list[Message] = []
    for tens in range(6):
        sent += client.send("Sql", 10, first=10 * tens, properties={"tens": str(tens)})
    wanted = [message for message in selected(sent, 3) if message["tags"]]
    assert 0 < len(wanted) < len(sent)
    assert_exactly(client.receive("sql", len(wanted)), wanted)
    client.stop("sql")


def test_invalid_expression_is_refused_at_start(client: Client) -> None:
    client.create_topic("SqlBad", 1)
    # A client that failed to start keeps its group registered in its process, which runs the tests of all servers.
    name = f"bad-{time.time_ns()}"
    with pytest.raises(JavaError, match=r"SUBSCRIPTION|CODE: 23|Check client in broker error"):
        client.call("consume", consumer=name, topic="SqlBad", kind="concurrent", group=name, sql="tens >= >= 3")
