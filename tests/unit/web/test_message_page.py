"""What a message's page shows of each group, over an Admin that answers from tables."""

import asyncio
from typing import Any

from headrace import ConnectError, MessageExt, MessageQueue
from headrace.client.settings import ClientConfig
from headrace.protocol.bodies import ClusterInfo, Connection, ConsumerConnection
from headrace.protocol.bodies.route import BrokerData
from web.cluster.cluster import Cluster
from web.pages.messages.message_page import MessagePage
from web.pages.messages.message_reads import MessageReads
from web.routes import Access, Visit

QUEUE = MessageQueue("Orders", "broker-a", 0)
MESSAGE = MessageExt("Orders", queue_offset=5, store_host=("10.0.0.1", 10911), properties={"UNIQ_KEY": "U1"})
OFFSETS = {"behind": 5, "beyond": 6, "retried": 6, "dead": 6, "new": None}
COPIES = {"%RETRY%retried", "%RETRY%dead", "%DLQ%dead"}


class Answers:
    """Stands for the Admin: a message at offset 5 of the only queue, and groups with an offset each."""

    async def query_by_unique_id(self, topic: str, unique_id: str, *, decompress: bool) -> MessageExt | None:
        assert (unique_id, decompress) == ("U1", False)
        return MESSAGE if topic in {"Orders", *COPIES} else None

    async def topics(self) -> list[str]:
        return ["Orders", "%RETRY%beyond", *COPIES]

    async def topic_groups(self, _topic: str) -> list[str]:
        return list(OFFSETS)

    async def subscribe_queues(self, _topic: str) -> list[MessageQueue]:
        return [QUEUE]

    async def cluster_info(self) -> ClusterInfo:
        broker = BrokerData("broker-a", "C", {0: "10.0.0.1:10911"})
        return ClusterInfo({"broker-a": broker}, {"C": ["broker-a"]})

    async def consumer_connection(self, group: str, *, broker: str) -> ConsumerConnection:
        assert broker == "10.0.0.1:10911"
        if group == "new":
            raise ConnectError("cannot connect to 10.0.0.1:10911")
        return ConsumerConnection([Connection(client_id="worker@1")] if group == "behind" else [])

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        assert queue == QUEUE
        return OFFSETS[group]


def test_offset_beyond_a_message_is_not_called_consumed_and_dead_letters_are_named() -> None:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = Answers()
    cluster.admin = stand_in
    visit = Visit("ann", Access.VIEWER, "", {"id": "U1"}, {"topic": "Orders"})
    view = asyncio.run(MessagePage(MessageReads(cluster)).show(visit))
    assert view.problems == []
    assert {row.group: row.state for row in view.tables[0].rows} == {
        "behind": "not consumed yet",
        "beyond": "offset is beyond it",
        "retried": "sent back for a retry",
        "dead": "dead letter",
        "new": "no offset",
    }
    (state,) = (column for column in view.tables[0].columns if column.key == "state")
    assert state.says is not None
    said = {row.group: state.says(row) for row in view.tables[0].rows}
    assert said["beyond"] == ("passed (offset {offset})", {"offset": OFFSETS["beyond"]})
    assert said["behind"] is None
    assert {row.group: row.members for row in view.tables[0].rows} == {
        "behind": 1,
        "beyond": 0,
        "retried": 0,
        "dead": 0,
        "new": None,
    }
    assert view.data["clients"] == ["worker@1"]
    assert view.data["without_members"] == ["beyond", "dead", "retried"]
