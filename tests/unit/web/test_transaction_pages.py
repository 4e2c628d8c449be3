"""The page of transactions: which half messages are unresolved, and that discarded ones are checked again once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from headrace import BrokerError, MessageExt, MessageQueue
from headrace.client.settings import ClientConfig
from headrace.errors import RequestTimeout
from headrace.model.message_id import decode_offset_message_id
from headrace.model.names import TRANSACTION_CHECK_MAX_TIME_TOPIC, TRANSACTION_OP_HALF_TOPIC
from headrace.protocol.bodies import ClusterInfo
from headrace.protocol.bodies.route import BrokerData
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.errors import Invalid, QueryFailed
from web.pages.dead_letters.resend_book import Letter, ResendBook
from web.pages.messages.message_row import MessageRow
from web.pages.waiting.half_reads import CheckRules, Half, named_by, unresolved
from web.pages.waiting.transaction_pages import CheckAgain, TransactionPages
from web.routes import Access, Outcome, Visit

VISIT: Final = Visit("ann", Access.OPERATOR, "192.0.2.1")


def half(offset: int, name: str = "", stored_at: int = 0, **properties: str) -> MessageRow:
    return MessageRow(
        name or f"id-{offset}", "", stored_at, 1_000, "", [], 0, offset, 0, 0, "", "", properties
    )  # fmt: skip


def op(body: bytes, topic: str = TRANSACTION_OP_HALF_TOPIC, tags: str = "d") -> MessageExt:
    return MessageExt(topic, 0, 0, 0, body=body, properties={"TAGS": tags})


def test_half_messages_that_an_op_message_names_are_resolved() -> None:
    halves = [half(number) for number in (4, 5, 6)] + [half(7, TRAN_PREPARED_QUEUE_OFFSET="2")]
    named = named_by(op(b"5")) | named_by(op(b"2,6"))
    assert [one.queue_offset for one in unresolved(halves, named)] == [4]


def test_message_and_its_copy_of_a_check_in_progress_are_one() -> None:
    halves = [half(4, "same"), half(5), half(6, "same", TRANSACTION_CHECK_TIMES="1")]
    assert [one.queue_offset for one in unresolved(halves, set())] == [5, 6]


@pytest.mark.parametrize(
    "message", [op(b"5", topic="Orders"), op(b"5", tags="x"), op(b"\xff\xfe"), op(b""), op(b"-5, 5 ,0x5," + b"9" * 40)]
)
def test_anything_else_resolves_nothing(message: MessageExt) -> None:
    assert named_by(message) == set()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (half(0), 1_000 + 6_000 + 15 * 60_000),
        (half(0, CHECK_IMMUNITY_TIME_IN_SECONDS="60"), 1_000 + 60_000 + 15 * 60_000),
        (half(0, stored_at=5_000, TRANSACTION_CHECK_TIMES="3"), 5_000 + 13 * 60_000),
        (half(0, stored_at=5_000, TRANSACTION_CHECK_TIMES="99"), 5_000 + 60_000),
        (half(0, TRANSACTION_CHECK_TIMES="many"), 1_000 + 6_000 + 15 * 60_000),
    ],
)
def test_time_of_giving_up_follows_from_the_checks(row: MessageRow, expected: int) -> None:
    assert Half(row, "broker-a", CheckRules(), None).discarded_at == expected


def discarded(number: int, topic: str = TRANSACTION_CHECK_MAX_TIME_TOPIC) -> MessageExt:
    return MessageExt(
        topic,
        0,
        number,
        number,
        store_host=("127.0.0.1", 10911),
        properties={"UNIQ_KEY": f"ID{number}"},
    )


class Answers:
    """Stands for the Admin of one broker: messages by their physical offset, and which were checked again."""

    def __init__(self, *messages: MessageExt) -> None:
        self.messages = {one.physical_offset: one for one in messages}
        self.checked: list[str] = []
        self.failure: Exception | None = None

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo({"broker-a": BrokerData("broker-a", "C", {0: "127.0.0.1:10911"})}, {"C": ["broker-a"]})

    async def view_message(self, message_id: str, *, decompress: bool) -> MessageExt:
        assert not decompress
        return self.messages[decode_offset_message_id(message_id)[1]]

    async def resume_half_message(self, message_id: str) -> None:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.checked.append(message_id)

    async def topics(self) -> list[str]:
        return []

    async def subscribe_queues(self, _topic: str) -> list[MessageQueue]:
        return []


@pytest.fixture
def book(tmp_path: Path) -> Iterator[ResendBook]:
    book = ResendBook(tmp_path / "dead-letters.db")
    yield book
    book.close()


def press(answers: Answers, book: ResendBook, *messages: MessageExt, times: int = 1, again: bool = False) -> Any:
    """Presses the button `times` times at once; the outcomes."""

    async def main() -> list[Outcome]:
        cluster = Cluster(ClientConfig("127.0.0.1:1"))
        stand_in: Any = answers
        cluster.admin = stand_in
        pages = TransactionPages(cluster, book)
        form = CheckAgain([one.offset_message_id for one in messages], again)
        return await asyncio.gather(*(pages.check_again(VISIT, form) for _ in range(times)))

    return asyncio.run(main())


def test_discarded_message_pressed_many_times_is_checked_again_once_or_on_demand(book: ResendBook) -> None:
    messages = discarded(100), discarded(200)
    answers = Answers(*messages)
    outcomes = press(answers, book, *messages, times=4)
    assert sorted(answers.checked) == [one.offset_message_id for one in messages]
    assert sum(one.values["checked"] for one in outcomes) == 2
    assert sum(one.values["skipped"] for one in outcomes) == 6
    press(answers, book, messages[0], again=True)
    assert answers.checked.count(messages[0].offset_message_id) == 2


def test_refused_check_can_be_repeated_and_one_without_an_answer_is_noted(book: ResendBook) -> None:
    message = discarded(100)
    answers = Answers(message)
    for failure, is_noted in (
        (BrokerError.of(ResponseCode.SYSTEM_ERROR, "no file"), False),
        (RequestTimeout("no answer"), True),
    ):
        answers.failure = failure
        with pytest.raises(QueryFailed) as caught:
            press(answers, book, message)
        assert "ID100: " in str(caught.value)
        assert caught.value.after == {"checked": []}
        letter = Letter(TRANSACTION_CHECK_MAX_TIME_TOPIC, message.offset_message_id, "ID100")
        assert bool(book.find([letter])) is is_noted
    answers.failure = None
    (outcome,) = press(answers, book, message)
    assert outcome.values == {"checked": 0, "skipped": 1}


def test_other_messages_are_refused_before_any_is_checked(book: ResendBook) -> None:
    messages = discarded(100), discarded(200, "Orders")
    answers = Answers(*messages)
    with pytest.raises(Invalid, match="in the topic Orders, not in TRANS_CHECK_MAX_TIME_TOPIC"):
        press(answers, book, *messages)
    with pytest.raises(Invalid, match="no message is selected"):
        press(answers, book)
    assert answers.checked == []
