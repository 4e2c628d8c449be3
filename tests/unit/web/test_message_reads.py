import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headrace import MessageExt, MessageQueue, RequestTimeout
from headrace.client.settings import ClientConfig
from web.cluster.cluster import Cluster
from web.errors import Invalid, NotFound, QueryFailed
from web.pages.messages.message_reads import MOST_BY_KEY, MOST_SEARCHED, MessageReads
from web.pages.messages.message_row import MessageRow
from web.pages.messages.message_search import MessageSearch
from web.pages.messages.time_scan import PAGE, ScannedPage
from web.routes import Access, View, Visit
from web.sampling.sample import BrokerSample, Sample, Traffic


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


class Stored(MessageReads):
    """Scans a topic with so many messages in one queue."""

    def __init__(self, count: int) -> None:
        super().__init__(Cluster(ClientConfig("127.0.0.1:1")))
        self.count = count

    async def by_time(self, topic: str, _begin_ms: int, _end_ms: int, offsets: list[int] | None) -> ScannedPage:
        first = 0 if offsets is None else offsets[0]
        end = min(first + PAGE, self.count)
        rows = [MessageRow(str(at), topic, at, at, "", [], 0, at, 0, 0, "", "", {}) for at in range(first, end)]
        return ScannedPage(rows, None if end == self.count else [end])


def scan(count: int, one_in: int) -> list[tuple[int, int]]:
    """Searches for one in so many messages: what each page found, and how many it scanned."""

    async def main() -> list[tuple[int, int]]:
        pages, found, offsets = [], [], None
        while True:
            page = await Stored(count).by_time_where("T", 0, 9, offsets, lambda row: row.queue_offset % one_in == 0)
            pages.append((len(page.rows), page.scanned))
            found += [row.queue_offset for row in page.rows]
            if page.next_offsets is None:
                assert found == list(range(0, count, one_in))
                return pages
            offsets = list(page.next_offsets)

    return asyncio.run(main())


def test_search_for_rare_messages_scans_on_until_a_page_is_full_or_it_takes_too_long() -> None:
    assert scan(250, 1) == [(100, 100), (100, 100), (50, 50)]
    assert scan(1_250, 10) == [(100, 1_000), (25, 250)]
    assert scan(12_000, 4_000) == [(2, 5_000), (1, 5_000), (0, 2_000)]


def test_topic_that_may_not_be_read_is_an_error_and_not_an_empty_list() -> None:
    with pytest.raises(Invalid, match="the topic Orders has no readable queue"):
        search(0, None)


def test_page_of_another_number_of_queues_is_refused() -> None:
    with pytest.raises(Invalid, match="the number of queues has changed"):
        search(2, [5])


class Keyed:
    """Stands for the Admin: topics, each with the times of storage of the messages with the key."""

    def __init__(self, topics: dict[str, list[int] | Exception]) -> None:
        self.by_topic = topics
        self.searched: list[str] = []

    async def topics(self) -> list[str]:
        return sorted(self.by_topic)

    async def query_messages(self, topic: str, key: str, *_span: int, decompress: bool) -> list[MessageExt]:
        assert not decompress
        self.searched.append(topic)
        found = self.by_topic[topic]
        if isinstance(found, Exception):
            raise found
        # Those stored from 10 on are of another topic if they are retries.
        return [
            MessageExt(topic, properties={"KEYS": key, "RETRY_TOPIC": "A" if at < 10 else "B"}, store_timestamp=at)
            for at in found
        ]

    async def topic_groups(self, topic: str) -> list[str]:
        return ["g", "h"] if topic == "A" else []

    async def query_by_unique_id(self, topic: str, unique_id: str, *, decompress: bool) -> MessageExt | None:
        found = await self.query_messages(topic, "", decompress=decompress)
        return replace(found[0], properties={"UNIQ_KEY": unique_id}) if found else None

    async def for_page(self) -> Sample:
        return Sample(0.0, (BrokerSample("C", "a", 0, "n:1", topic_in={"T203": Traffic(9)}),))


def page_of(topics: dict[str, list[int] | Exception], **arguments: str) -> View:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = Keyed(topics)
    cluster.admin = stand_in
    visit = Visit("admin", Access.ADMIN, "", {}, arguments)
    return asyncio.run(MessageSearch(MessageReads(cluster, stand_in), lambda: 10_000).show(visit))


def found_in(view: View) -> list[tuple[str, int]]:
    return [(row.topic, row.stored_at) for row in view.tables[0].rows]


def test_key_without_a_topic_is_searched_in_all_topics_but_system_topics() -> None:
    view = page_of({"B": [3], "A": [2, 5], "%RETRY%g": [4], "Empty": [], "TBW102": [1]}, by="key", key="k")
    assert found_in(view) == [("A", 2), ("B", 3), ("%RETRY%g", 4), ("A", 5)]
    assert "topic" in [column.key for column in view.tables[0].columns]
    assert view.data["next"] is None


def test_key_in_a_topic_is_searched_among_the_retries_and_dead_letters_of_its_groups() -> None:
    topics: dict[str, list[int] | Exception] = {
        "A": [1],
        "%RETRY%g": [2, 12],
        "%DLQ%g": [3],
        "%DLQ%other": [4],
        "%DLQ%lone": [5],
    }
    view = page_of(topics, by="key", key="k", topic="A")
    assert found_in(view) == [("A", 1), ("%RETRY%g", 2), ("%DLQ%g", 3)], "12 is a retry of another topic"
    (column,) = (column for column in view.tables[0].columns if column.key == "topic")
    assert column.says is not None
    assert [column.says(row) for row in view.tables[0].rows] == [
        None,
        ("retry of {group}", {"group": "g"}),
        ("dead letter of {group}", {"group": "g"}),
    ]
    view = page_of({"A": [1], "%DLQ%g": []}, by="key", key="k", topic="A")
    assert "topic" not in [column.key for column in view.tables[0].columns]
    assert found_in(page_of(topics, by="key", key="k", topic="%DLQ%g")) == [("%DLQ%g", 3)]
    with pytest.raises(QueryFailed, match="1 of 1 topics could not be searched: late"):
        page_of({"A": [1], "%DLQ%g": RequestTimeout("late")}, by="key", key="k", topic="A")


def test_key_of_many_messages_in_one_of_all_topics_is_shown_from_where_all_are_known() -> None:
    many = list(range(100, 100 + MOST_BY_KEY))
    view = page_of({"Many": many, "Few": [50, 120]}, by="key", key="k")
    assert sorted(found_in(view)) == sorted([("Few", 120), *(("Many", at) for at in many)])
    assert view.data["next"] == {"by": "key", "key": "k", "end": "100"}


def test_key_is_searched_in_200_topics_at_most_those_with_the_most_messages_first() -> None:
    topics: dict[str, list[int] | Exception] = {f"T{number:03}": [number] for number in range(MOST_SEARCHED + 5)}
    view = page_of(topics, by="key", key="k")
    assert (view.data["searched_topics"], view.data["all_topics"]) == (MOST_SEARCHED, MOST_SEARCHED + 5)
    assert ("T203", 203) in found_in(view)  # the busiest topic of the sample
    assert ("T000", 0) in found_in(view)
    assert ("T199", 199) not in found_in(view)


def test_unique_id_is_searched_in_200_topics_at_most_and_the_page_tells_how_to_go_on() -> None:
    topics: dict[str, list[int] | Exception] = {f"T{number:03}": [] for number in range(2_000)}
    with pytest.raises(NotFound, match="200 of 2000 topics were searched") as caught:
        page_of(topics, by="id", id="U1")
    assert "enter the topic" in caught.value.advice
    assert page_of({**topics, "T203": [5]}, by="id", id="U1").tables[0].rows[0].topic == "T203"


def test_unique_id_is_found_in_a_dead_letter_topic_if_the_message_was_deleted() -> None:
    assert page_of({"A": [], "%DLQ%g": [5], "%RETRY%g": []}, by="id", id="U1").tables[0].rows[0].topic == "%DLQ%g"
    assert page_of({"A": [3], "%DLQ%g": [5]}, by="id", id="U1").tables[0].rows[0].topic == "A"
    with pytest.raises(NotFound, match="none of the 2 topics"):
        page_of({"A": [], "%DLQ%g": [], "TBW102": [1]}, by="id", id="U1")


def test_key_in_a_topic_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(QueryFailed, match="1 of 2 topics could not be searched: late"):
        page_of({"A": [1], "B": RequestTimeout("late")}, by="key", key="k")


@pytest.mark.parametrize(
    ("by", "advice"), [("time", "Enter a topic."), ("key", "Enter a key."), ("id", "Enter a message id.")]
)
def test_search_for_nothing_is_refused(by: str, advice: str) -> None:
    with pytest.raises(Invalid) as caught:
        page_of({}, by=by)
    assert caught.value.advice == advice


def test_form_offers_topics_and_is_shown_although_they_cannot_be_read() -> None:
    assert page_of({"B": [], "A": [], "%DLQ%g": []}).data["topics"] == ["A", "B"]
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    view = asyncio.run(MessageSearch(MessageReads(cluster), lambda: 0).show(Visit("admin", Access.ADMIN, "")))
    assert view.data["topics"] == ()
