"""System topics and system groups: no change of them reaches a broker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.client.settings import ClientConfig
from headrace.model import names
from headrace.model.topic_config import TopicConfig
from web.cluster.cluster import Cluster
from web.errors import Invalid
from web.pages.groups.group_pages import GroupPages
from web.pages.topics import TopicPages
from web.routes import Access, Change, Visit

GROUPS = (names.TOOLS_CONSUMER_GROUP, names.TRANSACTION_GROUP)
TOPICS = (names.SCHEDULE_TOPIC, names.TRANSACTION_HALF_TOPIC, "DefaultCluster", "rmq_sys_TRACE_DATA_x")


class Answers:
    """Stands for the Admin: reads are answered; the test fails if anything else is asked."""

    async def topics(self) -> list[str]:
        return []

    async def system_topics(self) -> list[str]:
        return ["DefaultCluster"]

    async def masters(self) -> dict[str, str]:
        return {"a": "b:1"}

    async def topic_configs(self, _address: str) -> dict[str, Any]:
        return {topic: TopicConfig(topic) for topic in TOPICS}


def changes_of(make: Callable[[Cluster], Any]) -> list[Change[Any]]:
    cluster = Cluster(ClientConfig("n:1"))
    stand_in: Any = Answers()
    cluster.admin = stand_in
    return [route for route in make(cluster).routes() if isinstance(route, Change)]


def refused(change: Callable[[], Awaitable[Any]]) -> None:
    async def main() -> None:
        await change()

    with pytest.raises(Invalid, match=r"is a system (topic|group) and cannot be changed here"):
        asyncio.run(main())


def form_of(change: Change[Any], name: str) -> Any:
    """The form with the name where it is asked for."""
    known = {
        "name": name,
        "confirm": name,
        "topic": name,
        "to": "latest",
        "target": name,
        "read_queues": 4,
        "write_queues": 4,
        "permission": "RW",
    }
    fields = {field: known[field] for field in change.form.__struct_fields__ if field in known}
    return change.form(**fields)


@pytest.mark.parametrize("group", GROUPS)
def test_no_change_of_a_system_group_is_carried_out(group: str) -> None:
    unused: Any = None
    changes = changes_of(lambda cluster: GroupPages(cluster, unused, unused))
    assert len(changes) >= 6
    for change in changes:
        visit = Visit("ann", Access.ADMIN, "", {"group": group})
        refused(lambda change=change, visit=visit: change.run(visit, form_of(change, group)))  # type: ignore[misc]


@pytest.mark.parametrize("topic", TOPICS)
def test_system_topics_are_neither_created_changed_nor_deleted(topic: str) -> None:
    unused: Any = None
    changes = changes_of(lambda cluster: TopicPages(cluster, unused))
    changes = [one for one in changes if one.action.startswith("topic.")]
    assert {one.action for one in changes} == {"topic.create", "topic.update", "topic.delete"}
    for change in changes:
        form = form_of(change, topic)
        visit = Visit("ann", Access.ADMIN, "", {"topic": topic})
        refused(lambda change=change, visit=visit, form=form: change.run(visit, form))  # type: ignore[misc]
