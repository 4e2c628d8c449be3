"""Dead letters are sent again once, whatever users press; over an Admin and a Producer that answer from tables."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from headrace import BrokerError, Message, MessageExt, MessageQueue, RouteNotFound, SendFailed
from headrace.client.settings import ClientConfig
from headrace.protocol.bodies import ClusterInfo
from headrace.protocol.bodies.route import BrokerData
from headrace.protocol.response_code import ResponseCode
from support.consuming import eventually
from web.cluster.cluster import Cluster
from web.errors import DatabaseUnusable, Invalid, NotFound
from web.pages.dead_letters.dead_letter_pages import DeadLetterPages, ResendForm
from web.pages.dead_letters.handled_book import HandledBook
from web.pages.dead_letters.handled_letters import HandledLetters
from web.pages.dead_letters.letter_queues import LetterRange, parse_ranges
from web.pages.dead_letters.resend_book import Letter, ResendBook
from web.pages.dead_letters.resends import Resends, Run
from web.routes import Access, Outcome, Visit
from web.tables.table import with_below

QUEUE: Final = MessageQueue("%DLQ%billing", "broker-a", 0)
VISIT: Final = Visit("ann", Access.OPERATOR, "192.0.2.1", {"group": "billing"})
LETTER: Final = Letter("billing", "offset-id", "message-id")


class World:
    """Stands for the cluster: one queue with dead letters, and a producer that keeps what it is given."""

    def __init__(self, count: int) -> None:
        self.stored = [
            MessageExt(
                QUEUE.topic,
                0,
                at,
                at,
                store_host=("192.0.2.9", 10911),
                body=b"body %d" % at,
                properties={"UNIQ_KEY": f"ID{at}", "RETRY_TOPIC": "Orders"},
            )
            for at in range(count)
        ]
        self.sent: list[Message] = []
        self.failure: Exception | None = None
        self.on_send: Callable[[], None] = lambda: None

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo({"broker-a": BrokerData("broker-a", "C", {0: "192.0.2.9:10911"})}, {"C": ["broker-a"]})

    async def read_messages(self, _queue: MessageQueue, offset: int, count: int) -> Any:
        found = self.stored[offset : offset + min(count, 2)]
        messages = [SimpleNamespace(queue_offset=one.queue_offset, stored=lambda one=one: one) for one in found]
        return SimpleNamespace(messages=messages, next_offset=offset + len(found), max_offset=len(self.stored))

    async def send(self, message: Message) -> Any:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.sent.append(message)
        self.on_send()
        return SimpleNamespace(message_id=f"COPY{len(self.sent)}")


class Letters(World):
    """Its page can be shown. The store times do not have the order of the offsets."""

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

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo({"a": BrokerData("a", "C", {0: "n:1"})})

    async def consumer_connection(self, _group: str, *, broker: str) -> Any:
        raise BrokerError.of(ResponseCode.CONSUMER_NOT_ONLINE, broker)

    async def query_by_unique_id(self, _topic: str, message_id: str, **_more: Any) -> MessageExt | None:
        return next((one for one in self.stored if one.message_id == message_id), None)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[ResendBook]:
    book = ResendBook(tmp_path / "dead-letters.db")
    yield book
    book.close()


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[HandledBook]:
    marks = HandledBook(tmp_path / "handled.db")
    yield marks
    marks.close()


def carry_out(
    world: World, book: ResendBook, marks: HandledBook, main: Callable[[Resends], Coroutine[Any, Any, None]]
) -> list[Any]:
    """Runs `main`; what was written to the audit log."""
    entries: list[Any] = []

    async def within() -> None:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        stand_in: Any = world
        cluster.admin = stand_in
        cluster._producer = stand_in
        await main(
            Resends(
                cluster, book, HandledLetters(cluster, marks), lambda *fields, **more: entries.append((fields, more))
            )
        )

    asyncio.run(within())
    return entries


async def ended(run: Run) -> None:
    await eventually(lambda: run.ended_ms, "the run has ended")


def bodies(world: World) -> list[bytes]:
    return [message.body for message in world.sent]


def test_all_dead_letters_of_a_range_are_sent_once_although_it_is_started_twice(
    book: ResendBook, marks: HandledBook
) -> None:
    world = World(7)

    async def main(resends: Resends) -> None:
        run = resends.start(VISIT, "billing", [LetterRange(QUEUE, 1, 6)], "group", 500)
        with pytest.raises(Invalid, match="already being resent"):
            resends.start(VISIT, "billing", [LetterRange(QUEUE, 1, 6)], "group", 500)
        await ended(run)
        again = resends.start(VISIT, "billing", [LetterRange(QUEUE, 0, 6)], "group", 500)
        await ended(again)
        assert (run.state, run.sent, run.total) == ("finished", 5, 5)
        assert (again.state, again.sent, again.skipped) == ("finished", 1, 5)

    entries = carry_out(world, book, marks, main)
    assert bodies(world) == [b"body 1", b"body 2", b"body 3", b"body 4", b"body 5", b"body 0"]
    assert {message.topic for message in world.sent} == {"%RETRY%billing"}
    assert [fields[:5] for fields, _ in entries] == [
        ("ann", "192.0.2.1", "dead-letter.resend-all", "billing", "done"),
    ] * 2
    assert entries[0][1]["after"] == {"sent": 5, "skipped": 0, "failed": 0}


def test_page_links_to_copies_and_has_the_oldest_letter_first(book: ResendBook, marks: HandledBook) -> None:
    world: Any = Letters(3)
    for at, letter in enumerate(world.stored):
        letter.store_timestamp = 9 - at
    first, second = (
        Letter("billing", one.offset_message_id, one.message_id) for one in (world.stored[0], world.stored[1])
    )
    for letter in (first, second):
        book.begin(letter, "ann", 7)
    book.finish(first, "COPY1")

    async def main() -> None:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        cluster.admin = world
        unused: Any = SimpleNamespace(last=lambda _group: None)
        view = await DeadLetterPages(cluster, unused, book, HandledLetters(cluster, marks), unused).show(VISIT)
        (table,) = view.tables
        shown = await table.select({}).fill()
        assert [row.id for row in shown.rows] == ["ID2", "ID1", "ID0"]
        assert (shown.selection.sort, shown.selection.is_descending) == ("stored_at", False)
        assert [(row.resent_at, row.copy_id) for row in shown.rows] == [(None, None), (7, ""), (7, "COPY1")]
        (copy,) = (column for column in with_below(shown.columns) if column.key == "copy_id")
        assert copy.link is not None
        assert copy.says is not None
        assert [copy.link(row) for row in shown.rows] == [None, None, "/messages/COPY1"]
        assert [copy.says(row) for row in shown.rows] == [None, ("unknown", {}), None]

    asyncio.run(main())


def test_page_shows_that_a_resent_copy_became_a_dead_letter_again(book: ResendBook, marks: HandledBook) -> None:
    world: Any = Letters(2)
    for at, letter in enumerate(world.stored):
        letter.store_timestamp = 5 + at
    first = Letter("billing", world.stored[0].offset_message_id, world.stored[0].message_id)
    book.begin(first, "ann", 5)
    book.finish(first, "ID1")

    async def main() -> list[Any]:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        cluster.admin = world
        unused: Any = SimpleNamespace(last=lambda _group: None)
        return list(
            (await DeadLetterPages(cluster, unused, book, HandledLetters(cluster, marks), unused).show(VISIT))
            .tables[0]
            .rows
        )

    assert [(row.id, row.again_at) for row in asyncio.run(main())] == [("ID0", 6), ("ID1", None)]


def test_one_dead_letter_pressed_many_times_at_once_is_sent_once_or_again_on_demand(
    book: ResendBook, marks: HandledBook
) -> None:
    world = World(1)

    async def main(resends: Resends) -> None:
        presses = [resends.send("billing", world.stored[0], "topic", "ann") for _ in range(5)]
        assert sorted(map(bool, await asyncio.gather(*presses))) == [False] * 4 + [True]
        assert await resends.send("billing", world.stored[0], "topic", "ann", again=True) == "COPY2"

    carry_out(world, book, marks, main)
    assert [message.topic for message in world.sent] == ["Orders", "Orders"]


def test_run_is_cancelled_after_the_message_that_is_being_sent(book: ResendBook, marks: HandledBook) -> None:
    world = World(9)

    async def main(resends: Resends) -> None:
        def cancel() -> None:
            if len(world.sent) == 3:
                resends.cancel("billing")

        world.on_send = cancel
        run = resends.start(VISIT, "billing", [LetterRange(QUEUE, 0, 9)], "group", 500)
        await ended(run)
        assert (run.state, run.sent) == ("cancelled", 3)
        with pytest.raises(NotFound):
            resends.cancel("billing")

    entries = carry_out(world, book, marks, main)
    assert entries[0][0][4] == "cancelled"


def test_run_stops_at_the_first_failure_and_continues_where_it_stopped(book: ResendBook, marks: HandledBook) -> None:
    world = World(4)

    async def main(resends: Resends) -> None:
        def fail() -> None:
            world.failure = RouteNotFound("no route") if len(world.sent) == 2 else None

        world.on_send = fail
        run = resends.start(VISIT, "billing", [LetterRange(QUEUE, 0, 4)], "group", 500)
        await ended(run)
        assert (run.state, run.sent, run.problem) == ("stopped", 2, "no route")
        world.failure = None
        run = resends.start(VISIT, "billing", [LetterRange(QUEUE, 0, 4)], "group", 500)
        await ended(run)
        assert (run.state, run.sent, run.skipped) == ("finished", 2, 2)

    carry_out(world, book, marks, main)
    assert bodies(world) == [b"body 0", b"body 1", b"body 2", b"body 3"]


def test_message_of_which_nobody_knows_whether_it_was_stored_is_not_sent_again_by_itself(
    book: ResendBook, marks: HandledBook
) -> None:
    world = World(1)
    letter = Letter("billing", world.stored[0].offset_message_id, "ID0")

    async def main(resends: Resends) -> None:
        world.failure = SendFailed("no answer in time")
        with pytest.raises(SendFailed):
            await resends.send("billing", world.stored[0], "group", "ann")
        world.failure = None
        assert book.find([letter])[letter].copy_id == ""
        assert await resends.send("billing", world.stored[0], "group", "ann") is None

    carry_out(world, book, marks, main)
    assert world.sent == []


def test_body_that_cannot_be_sent_is_counted_and_does_not_stop_the_run(book: ResendBook, marks: HandledBook) -> None:
    world = World(3)
    world.stored[1].sys_flag = 1  # compressed, it says

    async def main(resends: Resends) -> None:
        run = resends.start(VISIT, "billing", [LetterRange(QUEUE, 0, 3)], "group", 500)
        await ended(run)
        assert (run.state, run.sent, run.failed) == ("finished", 2, 1)
        assert run.problem.startswith("ID1: ")

    carry_out(world, book, marks, main)
    assert bodies(world) == [b"body 0", b"body 2"]


def test_run_keeps_to_its_rate(book: ResendBook, marks: HandledBook) -> None:
    world = World(4)
    times: list[float] = []

    async def main(resends: Resends) -> None:
        world.on_send = lambda: times.append(asyncio.get_running_loop().time())
        await ended(resends.start(VISIT, "billing", [LetterRange(QUEUE, 0, 4)], "group", 50))

    carry_out(world, book, marks, main)
    assert times[-1] - times[0] >= 3 / 50 - 0.005


def test_console_that_stops_ends_its_runs(book: ResendBook, marks: HandledBook) -> None:
    world = World(9)

    async def main(resends: Resends) -> None:
        background = asyncio.create_task(resends.run())
        run = resends.start(VISIT, "billing", [LetterRange(QUEUE, 0, 9)], "group", 1)
        await eventually(lambda: world.sent, "a message is sent")
        background.cancel()
        await asyncio.gather(background, return_exceptions=True)
        assert (run.state, run.problem) == ("stopped", "the console was stopped")

    carry_out(world, book, marks, main)
    assert len(world.sent) == 1


def test_book_is_kept_across_restarts_and_private(tmp_path: Path) -> None:
    path = tmp_path / "dead-letters.db"
    book = ResendBook(path)
    assert book.begin(LETTER, "ann", 5)
    book.finish(LETTER, "COPY")
    book.close()
    assert path.stat().st_mode & 0o777 == 0o600
    book = ResendBook(path)
    assert not book.begin(LETTER, "ben", 6)
    assert book.find([LETTER, LETTER._replace(message_id="another")]) == {LETTER: (5, "COPY")}
    book.forget(LETTER)
    assert book.find([LETTER]) == {}
    book.close()


def test_book_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "dead-letters.db").write_bytes(b"no database" * 1000)
    with pytest.raises(DatabaseUnusable):
        ResendBook(tmp_path / "dead-letters.db")


@pytest.mark.parametrize("text", ["", "broker-a/0/1", "broker-a/0/1/-2", "broker-a/x/1/2", f"b/0/1/{'9' * 30}"])
def test_ranges_that_no_page_made_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="ranges of messages are invalid"):
        parse_ranges("billing", [text])


def test_range_is_read_as_it_was_written() -> None:
    one = LetterRange(MessageQueue("%DLQ%billing", "zone/broker", 3), 5, 9)
    assert parse_ranges("billing", [one.text]) == [one]


def resend_chosen(world: Letters, book: ResendBook, marks: HandledBook) -> Outcome:
    """Resends all letters as if a user had selected them."""

    async def main() -> Outcome:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        stand_in: Any = world
        cluster.admin = cluster._producer = stand_in
        handled = HandledLetters(cluster, marks)
        resends = Resends(cluster, book, handled, lambda *_, **__: None)
        pages = DeadLetterPages(cluster, stand_in, book, handled, resends)
        return await pages.resend(VISIT, ResendForm([one.message_id for one in world.stored]))

    return asyncio.run(main())


def test_outcome_has_how_many_of_the_chosen_letters_failed_and_why(book: ResendBook, marks: HandledBook) -> None:
    world = Letters(4)
    world.stored[1].sys_flag = 1  # compressed, it says

    def fail() -> None:
        world.failure = RouteNotFound("no route") if len(world.sent) == 2 else None

    world.on_send = fail
    outcome = resend_chosen(world, book, marks)
    assert (outcome.values["sent"], outcome.values["failed"], outcome.values["left"]) == (2, 2, 0)
    assert outcome.values["problem"].endswith("no route")
    assert outcome.is_warning
    assert outcome.location == "/dead-letters/billing"

    world.failure, world.on_send = None, lambda: None
    outcome = resend_chosen(world, book, marks)
    assert (outcome.values["sent"], outcome.values["skipped"], outcome.values["failed"]) == (1, 2, 1)


def test_letters_after_a_failure_of_the_cluster_are_not_tried(book: ResendBook, marks: HandledBook) -> None:
    world = Letters(4)

    def fail() -> None:
        world.failure = RouteNotFound("no route")

    world.on_send = fail
    outcome = resend_chosen(world, book, marks)
    assert (outcome.values["sent"], outcome.values["failed"], outcome.values["left"]) == (1, 1, 2)


def test_resend_of_which_nothing_succeeds_is_an_error(book: ResendBook, marks: HandledBook) -> None:
    world = Letters(2)
    world.failure = RouteNotFound("no route")
    with pytest.raises(RouteNotFound):
        resend_chosen(world, book, marks)
