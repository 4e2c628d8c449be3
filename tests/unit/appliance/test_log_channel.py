import logging
import os
import signal
from collections.abc import Iterator

import pytest

from appliance.log_channel import MAX_TEXT, LogChannel, PacketHandler


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def channel() -> Iterator[LogChannel]:
    made = LogChannel()
    yield made
    made.close()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def sender(channel: LogChannel) -> logging.Logger:
    logger = logging.Logger("toy", logging.DEBUG)  # noqa: LOG001  one of its own: the root one is pytest's
    logger.addHandler(PacketHandler(channel, "flush", logging.NullHandler()))
    return logger


@pytest.fixture
def receiver(channel: LogChannel, kept: Kept) -> PacketHandler:
    return PacketHandler(channel, "logger", kept)


def receive_all(receiver: PacketHandler) -> None:
    while receiver.receive():
        pass


def test_record_arrives_complete_with_its_role(sender: logging.Logger, receiver: PacketHandler, kept: Kept) -> None:
    sender.warning("synced to %d", 7)
    receive_all(receiver)
    (record,) = kept.records
    assert (record.getMessage(), record.levelname, record.name) == ("synced to 7", "WARNING", "toy")
    assert (record.role, record.process) == ("flush", os.getpid())  # type: ignore[attr-defined]


def test_record_with_an_unpicklable_argument_is_sent(
    sender: logging.Logger, receiver: PacketHandler, kept: Kept
) -> None:
    try:
        raise OSError("inside")
    except OSError:
        sender.exception("failed %s", lambda: None)
    receive_all(receiver)
    assert "OSError: inside" in str(kept.records[0].exc_text)


def test_long_message_is_marked_as_truncated(sender: logging.Logger, receiver: PacketHandler, kept: Kept) -> None:
    sender.info("ä" * (MAX_TEXT + 5))
    receive_all(receiver)
    assert kept.messages[0].endswith("(5 more characters)")


def test_senders_do_not_block_and_count_drops_when_nobody_reads(
    sender: logging.Logger, receiver: PacketHandler, kept: Kept
) -> None:
    sent = 30_000
    for number in range(sent):
        sender.info("record %d %s", number, "x" * 500)
    receive_all(receiver)
    arrived = len(kept.records)
    assert 0 < arrived < sent
    sender.info("the next one")
    receive_all(receiver)
    assert kept.messages[-2:] == [
        f"log records dropped count={sent - arrived} reason='the logger did not keep up'",
        "the next one",
    ]


def test_channel_works_after_a_sender_is_killed(sender: logging.Logger, receiver: PacketHandler, kept: Kept) -> None:
    pid = os.fork()
    if pid == 0:
        while True:
            sender.info("until the end")
    while not receiver.receive():  # not all: it may write faster than this process reads
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    receive_all(receiver)
    kept.records.clear()
    sender.info("still here")
    receive_all(receiver)
    assert kept.messages[-1] == "still here"


def test_receiver_sees_the_end_when_the_last_sender_exits(
    channel: LogChannel, sender: logging.Logger, receiver: PacketHandler, kept: Kept
) -> None:
    sender.info("last words")
    channel.sender.close()
    assert receiver.receive()
    with pytest.raises(EOFError):
        receiver.receive()
    assert kept.messages == ["last words"]


def test_handler_has_a_lock_for_logging(receiver: PacketHandler) -> None:
    assert receiver.lock is not None  # Python 3.13 enters it without a check
    with receiver.lock:
        pass
