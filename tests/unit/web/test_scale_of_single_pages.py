"""How many requests the pages about one topic, group, message and so on cost a cluster with 2,000 topics and 500 groups."""

from pathlib import Path
from typing import Any

import pytest
from unit.web.test_scale import BROKERS, GROUPS, CountingAdmin, requests_of_pages

from headrace import MessageExt
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ClusterInfo, ConsumerConnection, ConsumerRunningInfo
from headrace.protocol.bodies.connections import Connection
from headrace.protocol.bodies.route import BrokerData
from web.errors import NotFound
from web.pages.messages.message_reads import MOST_SEARCHED

pytestmark = pytest.mark.slow
PARTS = {
    "topic": "T0000", "group": "G001", "client": "c0@1",
    "address": "127.0.0.1:1", "broker": "broker-a", "level": "1", "id": "7F00000100002A9F0000",
    **dict.fromkeys(("account", "target", "rule", "channel", "user", "session", "token"), "unknown"),
}  # fmt: skip
"""What the addresses have. The id is a unique one."""
MEMBERS = 3
MOST = 65
"""The time lags of the 50 groups that a page shows, and a few requests for each of the two brokers."""
EACH = {
    "/messages/<id:str>": MOST_SEARCHED + (1 + len(BROKERS)) * GROUPS,  # a broker finds a unique id in one topic only
}
"""Pages that ask for each group that consumes the topic, and how often they do."""
OF_SHOWN_GROUPS = {"/topics/<topic:str>/consumers": 50 * len(BROKERS) + MEMBERS}
"""Pages that ask the shown groups for their members and the members what they read, and how often they do."""


class OneThing(CountingAdmin):
    """All groups consume the first topic. The group of the addresses has members."""

    async def topic_groups(self, _topic: str) -> list[str]:
        return self._groups

    async def consumer_offsets(self, _address: str) -> dict[str, dict[str, dict[int, int]]]:
        return {group: {"T0000": {0: 1}} for group in self._groups}

    async def consumer_connection(self, group: str, *, broker: str = "") -> Any:
        if group != PARTS["group"]:
            return await super().consumer_connection(group, broker=broker)
        return ConsumerConnection([Connection(f"c{number}@1", f"n:{number}") for number in range(MEMBERS)])

    async def running_info(self, _group: str, _client: str, **_what: bool) -> ConsumerRunningInfo:
        return ConsumerRunningInfo()

    async def query_by_unique_id(self, topic: str, _id: str, **_what: bool) -> MessageExt | None:
        if topic != PARTS["topic"]:
            return None
        return MessageExt(topic, 0, 0, 0, body=b"", properties={"UNIQ_KEY": PARTS["id"]}, store_host=("127.0.0.1", 1))

    async def min_offset(self, _queue: MessageQueue) -> int:
        return 0

    async def search_offset(self, _queue: MessageQueue, _moment: int) -> int:
        return 0

    async def name_servers(self) -> list[str]:
        return [PARTS["address"]]

    async def name_server_configs(self, **_where: str) -> dict[str, dict[str, str]]:
        return {PARTS["address"]: {}}

    async def cluster_info(self, **_where: str) -> ClusterInfo:
        table = {name: BrokerData(name, "C", {0: f"127.0.0.1:{n}"}) for n, name in enumerate(BROKERS, 1)}
        return ClusterInfo(table, {"C": list(table)})


def test_pages_about_one_thing_cost_the_same_for_any_number_of_topics_and_groups(tmp_path: Path) -> None:
    # What the console itself keeps, such as users, is not found.
    few = requests_of_pages(OneThing(200, 60), tmp_path / "few", PARTS, NotFound)
    many = requests_of_pages(OneThing(), tmp_path / "many", PARTS, NotFound)
    for path, asked in many.items():
        if path in EACH:
            assert asked.total() <= EACH[path] + MOST, path
        else:
            assert asked == few[path], path
            assert asked.total() <= MOST + OF_SHOWN_GROUPS.get(path, 0), path
    assert {path.split("/")[1] for path, asked in many.items() if asked} == {
        "acl", "cluster", "dead-letters", "delays", "groups", "messages", "topics"
    }  # fmt: skip
