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


def test_a_record_arrives_whole_with_its_senders_role(
    sender: logging.Logger, receiver: PacketHandler, kept: Kept
) -> None:
    sender.warning("synced to %d", 7)
    receive_all(receiver)
    (record,) = kept.records
    assert (record.getMessage(), record.levelname, record.name) == ("synced to 7", "WARNING", "toy")
    assert (record.role, record.process) == ("flush", os.getpid())  # type: ignore[attr-defined]


def test_what_cannot_be_pickled_does_not_keep_a_record_from_travelling(
    sender: logging.Logger, receiver: PacketHandler, kept: Kept
) -> None:
    try:
        raise OSError("inside")
    except OSError:
        sender.exception("failed %s", lambda: None)
    receive_all(receiver)
    assert "OSError: inside" in str(kept.records[0].exc_text)


def test_a_long_message_is_cut_and_says_so(sender: logging.Logger, receiver: PacketHandler, kept: Kept) -> None:
    sender.info("ä" * (MAX_TEXT + 5))
    receive_all(receiver)
    assert kept.messages[0].endswith("(5 characters left out)")


def test_nobody_blocks_when_nobody_reads_and_the_loss_is_counted(
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
        f"dropped {sent - arrived} log records: the logger did not keep up",
        "the next one",
    ]


def test_a_killed_sender_leaves_the_channel_to_the_others(
    sender: logging.Logger, receiver: PacketHandler, kept: Kept
) -> None:
    pid = os.fork()
    if pid == 0:
        while True:
            sender.info("until the end")
    while not receiver.receive():  # not all: it may write faster than this is read
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    receive_all(receiver)
    kept.records.clear()
    sender.info("still here")
    receive_all(receiver)
    assert kept.messages[-1] == "still here"


def test_the_end_of_the_channel_is_seen_when_the_last_sender_is_gone(
    channel: LogChannel, sender: logging.Logger, receiver: PacketHandler, kept: Kept
) -> None:
    sender.info("last words")
    channel.sender.close()
    assert receiver.receive()
    with pytest.raises(EOFError):
        receiver.receive()
    assert kept.messages == ["last words"]


def test_handler_has_the_lock_that_logging_enters(receiver: PacketHandler) -> None:
    assert receiver.lock is not None  # Python 3.13 enters it without a look
    with receiver.lock:
        pass
