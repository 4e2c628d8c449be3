"""Dead letters are marked as handled, one, chosen or all, and the marks go with their messages."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from headrace import MessageExt, MessageQueue
from headrace.client.settings import ClientConfig
from headrace.errors import RouteNotFound
from headrace.protocol.bodies import ClusterInfo
from headrace.protocol.bodies.route import BrokerData
from support.consuming import eventually
from web.cluster.cluster import Cluster
from web.errors import Invalid
from web.pages.dead_letters import handled_book
from web.pages.dead_letters.dead_letter_pages import DeadLetterPages, ResendForm
from web.pages.dead_letters.handled_book import HandledBook, Mark
from web.pages.dead_letters.handled_letters import HandledLetters, is_gone
from web.pages.dead_letters.handling_changes import (
    HandleAllForm,
    HandleForm,
    HandlingChanges,
    UnhandleAllForm,
    UnhandleForm,
)
from web.pages.dead_letters.letter_queues import LetterRange
from web.pages.dead_letters.resend_book import ResendBook
from web.pages.dead_letters.resends import Resends
from web.pages.messages.message_reads import MessageReads
from web.routes import Access, Visit
from web.sampling.sample import BrokerSample, DeadLetterQueue, Sample

QUEUE: Final = MessageQueue("%DLQ%billing", "broker-a", 0)
OTHER: Final = MessageQueue("%DLQ%billing", "broker-b", 0)
VISIT: Final = Visit("ann", Access.OPERATOR, "192.0.2.1", {"group": "billing"})


@pytest.fixture
def book(tmp_path: Path) -> Iterator[HandledBook]:
    book = HandledBook(tmp_path / "dead-letters.db")
    yield book
    book.close()


def ranges(*bounds: tuple[int, int], queue: MessageQueue = QUEUE) -> list[LetterRange]:
    return [LetterRange(queue, begin, end) for begin, end in bounds]


def shown(book: HandledBook) -> list[tuple[str, int, int, str, str]]:
    return [(one.broker, one.begin, one.end, one.user, one.note) for one in book.marks("billing")]


def test_letters_keep_the_mark_that_they_have(book: HandledBook) -> None:
    assert book.mark("billing", ranges((3, 4), (6, 8)), 5, "ann", "fixed") == 3
    assert book.mark("billing", ranges((0, 10)), 6, "ben", "") == 7
    assert book.mark("billing", ranges((0, 10)), 7, "cid", "late") == 0
    assert book.mark("billing", ranges((0, 1), queue=OTHER), 7, "cid", "") == 1
    assert shown(book) == [
        ("broker-a", 0, 3, "ben", ""),
        ("broker-a", 3, 4, "ann", "fixed"),
        ("broker-a", 4, 6, "ben", ""),
        ("broker-a", 6, 8, "ann", "fixed"),
        ("broker-a", 8, 10, "ben", ""),
        ("broker-b", 0, 1, "cid", ""),
    ]
    assert book.marks("audit") == []


def test_marks_of_one_change_are_joined(book: HandledBook) -> None:
    book.mark("billing", ranges((1, 2), (2, 3), (3, 4)), 5, "ann", "fixed")
    book.mark("billing", ranges((4, 5)), 6, "ann", "fixed")
    assert [(one.begin, one.end, one.at_ms) for one in book.marks()] == [(1, 4, 5), (4, 5, 6)]


def test_mark_is_removed_from_a_part_of_its_letters(book: HandledBook) -> None:
    book.mark("billing", ranges((0, 10)), 5, "ann", "fixed")
    assert book.unmark("billing", ranges((4, 6), (9, 12))) == 3
    assert book.unmark("billing", ranges((4, 6))) == 0
    assert [(one.begin, one.end, one.at_ms) for one in book.marks()] == [(0, 4, 5), (6, 9, 5)]


def test_marks_are_kept_across_restarts_and_the_oldest_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handled_book, "_MOST", 3)
    path = tmp_path / "dead-letters.db"
    book = HandledBook(path)
    for at in range(5):
        book.mark("billing", ranges((2 * at, 2 * at + 1)), at, "ann", "")
    book.close()
    book = HandledBook(path)
    assert [one.begin for one in book.marks()] == [4, 6, 8]
    book.close()
    ResendBook(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


MARK: Final = Mark("billing", "broker-a", 0, 5, 8, 100_000, "ann", "")


def sample(*queues: DeadLetterQueue, topics: frozenset[str] = frozenset({"%DLQ%billing"}), **more: Any) -> Sample:
    return Sample(200.0, (BrokerSample("C", "broker-a", 0, "n:1", topics=topics, dead_letter_queues=queues, **more),))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (sample(DeadLetterQueue("billing", 0, 0, 8, 190.0)), False),
        (sample(DeadLetterQueue("billing", 0, 7, 9, 190.0)), False),
        (sample(DeadLetterQueue("billing", 0, 8, 9, 190.0)), True),
        (sample(DeadLetterQueue("billing", 0, 0, 3, 190.0)), True),
        (sample(DeadLetterQueue("billing", 0, 0, 7, 90.0)), False),
        (sample(DeadLetterQueue("audit", 0, 0, 0, 190.0)), False),
        (sample(topics=frozenset()), True),
        (sample(topics=frozenset(), problem="down"), False),
        (Sample(200.0), False),
    ],
    ids=["stored", "some", "deleted", "created again", "read before", "unread", "no topic", "down", "no broker"],
)
def test_mark_goes_with_its_messages(now: Sample, expected: bool) -> None:
    assert is_gone(MARK, now) == expected


def test_sample_drops_the_marks_of_letters_that_are_gone(book: HandledBook) -> None:
    book.mark("billing", ranges((0, 3), (5, 8)), 5, "ann", "")

    async def main() -> None:
        handled = HandledLetters(Cluster(ClientConfig("n:1")), book)
        now = sample(DeadLetterQueue("billing", 0, 4, 8, 190.0))
        assert await handled.count_in(now.brokers) == {"billing": 3}
        handled.follow(now, {})
        await eventually(lambda: len(book.marks()) == 1, "the marks are dropped")

    asyncio.run(main())
    assert [one.begin for one in book.marks()] == [5]


class World:
    """Stands for the cluster: a broker with one queue of dead letters, and a producer."""

    def __init__(self, count: int) -> None:
        self.stored = [
            MessageExt(
                QUEUE.topic,
                0,
                at,
                1_000 * at,
                body=b"body",
                store_timestamp=10 + at,
                store_host=("192.0.2.9", 10911),
                properties={"UNIQ_KEY": f"ID{at}", "RETRY_TOPIC": "Orders"},
            )
            for at in range(count)
        ]

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo({"broker-a": BrokerData("broker-a", "C", {0: "192.0.2.9:10911"})}, {"C": ["broker-a"]})

    async def topics(self) -> list[str]:
        return [QUEUE.topic]

    async def subscribe_queues(self, _topic: str) -> list[MessageQueue]:
        return [QUEUE]

    async def min_offset(self, _queue: MessageQueue) -> int:
        return 0

    async def max_offset(self, _queue: MessageQueue) -> int:
        return len(self.stored)

    async def search_offset(self, _queue: MessageQueue, _moment: int) -> int:
        return 0

    async def consumer_connection(self, group: str) -> Any:
        raise RouteNotFound("no route", group)

    async def view_message(self, message_id: str, **_more: Any) -> MessageExt:
        return next(one for one in self.stored if one.offset_message_id == message_id)

    async def read_messages(self, _queue: MessageQueue, offset: int, count: int) -> Any:
        found = self.stored[offset : offset + count]
        messages = [SimpleNamespace(queue_offset=one.queue_offset, stored=lambda one=one: one) for one in found]
        return SimpleNamespace(messages=messages, next_offset=offset + len(found), max_offset=len(self.stored))

    async def send(self, _message: Any) -> Any:
        return SimpleNamespace(message_id="COPY")


class Console:
    """The pages and changes of dead letters over a world."""

    def __init__(self, world: World, book: HandledBook, resend_book: ResendBook) -> None:
        cluster = Cluster(ClientConfig("n:1"))
        stand_in: Any = world
        cluster.admin = cluster._producer = stand_in
        self.handled = HandledLetters(cluster, book)
        self.changes = HandlingChanges(MessageReads(cluster), self.handled)
        self.resends = Resends(cluster, resend_book, self.handled, lambda *_, **__: None)
        self.pages = DeadLetterPages(cluster, stand_in, resend_book, self.handled, self.resends)

    async def listed(self, **arguments: str) -> list[Any]:
        view = await self.pages.show(Visit("ann", Access.VIEWER, "", {"group": "billing"}, arguments))
        return list((await view.tables[0].select(arguments).fill()).rows)

    async def data(self) -> Any:
        return (await self.pages.show(VISIT)).data


@pytest.fixture
def resend_book(tmp_path: Path) -> Iterator[ResendBook]:
    book = ResendBook(tmp_path / "dead-letters.db")
    yield book
    book.close()


def test_handled_letters_are_listed_on_demand_with_who_when_and_why(book: HandledBook, resend_book: ResendBook) -> None:
    world = World(4)
    chosen = [world.stored[at].offset_message_id for at in (2, 1)]

    async def main() -> None:
        console = Console(world, book, resend_book)
        done = await console.changes.handle(VISIT, HandleForm(chosen, "refunded {by hand}"))
        assert done.after == {"count": 2, "note": "refunded {by hand}", "messages": chosen}
        assert [row.id for row in await console.listed()] == ["ID0", "ID3"]
        rows = await console.listed(state="handled")
        assert [(row.id, row.handled_by, row.note) for row in rows] == [
            ("ID1", "ann", "refunded {by hand}"),
            ("ID2", "ann", "refunded {by hand}"),
        ]
        assert all(row.handled_at for row in rows)
        assert [row.id for row in await console.listed(state="all")] == ["ID0", "ID1", "ID2", "ID3"]
        data = await console.data()
        assert (data["count"], data["handled"], data["shown"], data["resent"]) == (4, 2, 2, 0)

        done = await console.changes.unhandle(VISIT, UnhandleForm(chosen[:1]))
        assert done.before == {"count": 1, "messages": chosen[:1]}
        assert [row.id for row in await console.listed()] == ["ID0", "ID2", "ID3"]

    asyncio.run(main())


def test_all_letters_of_a_period_are_marked_without_those_that_came_since(
    book: HandledBook, resend_book: ResendBook
) -> None:
    world = World(230)

    async def main() -> None:
        console = Console(world, book, resend_book)
        all_ranges = (await console.data())["ranges"]
        world.stored.append(
            MessageExt(QUEUE.topic, 0, 230, 230_000, store_host=("192.0.2.9", 10911), store_timestamp=999)
        )
        done = await console.changes.handle_all(VISIT, HandleAllForm(all_ranges))
        assert done.values == {"count": 230}
        assert [row.stored_at for row in await console.listed()] == [999], "handled ones do not fill pages"
        done = await console.changes.unhandle_all(VISIT, UnhandleAllForm(all_ranges))
        assert done.values == {"count": 230}
        assert (await console.data())["handled"] == 0

    asyncio.run(main())


def test_letters_that_are_not_stored_are_not_marked(book: HandledBook, resend_book: ResendBook) -> None:
    async def main() -> None:
        changes = Console(World(3), book, resend_book).changes
        await changes.handle_all(VISIT, HandleAllForm(["broker-a/0/1/999", "broker-b/0/0/9", "broker-a/0/7/5"]))

    asyncio.run(main())
    assert [(one.broker, one.begin, one.end) for one in book.marks()] == [("broker-a", 1, 3)]


def test_letter_that_is_resent_is_handled_until_that_is_undone(book: HandledBook, resend_book: ResendBook) -> None:
    world = World(3)
    first = world.stored[0].offset_message_id

    async def main() -> None:
        console = Console(world, book, resend_book)
        await console.pages.resend(VISIT, ResendForm([first]))
        assert [row.id for row in await console.listed()] == ["ID1", "ID2"]
        [row] = await console.listed(state="handled")
        assert (row.id, row.handled_by, bool(row.resent_at)) == ("ID0", "ann", True)
        run = console.resends.start(VISIT, "billing", ranges((0, 3)), "group", 500)
        await eventually(lambda: run.ended_ms, "the run has ended")
        assert [one.end - one.begin for one in book.marks()] == [1, 2]
        await console.changes.unhandle(VISIT, UnhandleForm([first]))
        assert [row.id for row in await console.listed()] == ["ID0"]

    asyncio.run(main())


def test_letters_of_another_group_and_none_are_refused(book: HandledBook, resend_book: ResendBook) -> None:
    world = World(1)
    world.stored[0].topic = "%DLQ%audit"

    async def main() -> None:
        changes = Console(world, book, resend_book).changes
        with pytest.raises(Invalid, match="no dead letter is selected"):
            await changes.handle(VISIT, HandleForm())
        with pytest.raises(Invalid, match="not in %DLQ%billing"):
            await changes.handle(VISIT, HandleForm([world.stored[0].offset_message_id]))

    asyncio.run(main())
    assert book.marks() == []


def test_letter_of_a_broker_with_another_address_is_refused_with_what_to_do(
    book: HandledBook, resend_book: ResendBook
) -> None:
    class Moved(World):
        async def view_message(self, message_id: str, **more: Any) -> MessageExt:
            found = await super().view_message(message_id, **more)
            return replace(found, store_host=("192.0.2.10", 10911))

    world = Moved(1)

    async def main() -> None:
        changes = Console(world, book, resend_book).changes
        with pytest.raises(Invalid, match="is not in this cluster") as refused:
            await changes.handle(VISIT, HandleForm([world.stored[0].offset_message_id]))
        assert "the broker is registered" in refused.value.advice

    asyncio.run(main())
    assert book.marks() == []
