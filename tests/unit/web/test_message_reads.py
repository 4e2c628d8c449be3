import asyncio
from typing import Any

import pytest

from headrace import MessageQueue
from headrace.client.settings import ClientConfig
from web.cluster.cluster import Cluster
from web.errors import Invalid
from web.pages.messages.message_reads import MessageReads


class Answers:
    """Stands for the Admin: a topic with the given number of readable queues."""

    def __init__(self, queues: int) -> None:
        self.queues = queues

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        return [MessageQueue(topic, "broker-a", at) for at in range(self.queues)]


def search(queues: int, offsets: list[int] | None) -> None:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = Answers(queues)
    cluster.admin = stand_in
    asyncio.run(MessageReads(cluster).by_time("Orders", 0, 9, offsets))


def test_topic_that_may_not_be_read_is_an_error_and_not_an_empty_list() -> None:
    with pytest.raises(Invalid, match="the topic Orders has no readable queue"):
        search(0, None)


def test_page_of_another_number_of_queues_is_refused() -> None:
    with pytest.raises(Invalid, match="the number of queues has changed"):
        search(2, [5])
