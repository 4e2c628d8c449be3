"""Repeats one kind of work of the hot paths, for a test that counts its instructions: `python -m support.hot_cost KIND REPEATS`.

Only compiled code, memory and mapped files: the same instructions in each run, but for those of the start.
"""

import gc
import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from broker.pulling.hot_pull import PullPlan
from broker.sending import hot_send
from headrace.protocol.batch import encode_entry
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode
from headrace.remoting import turns
from support.hot_sends import BORN_HOST, NOW_MS, LogInMemory, send_frame, send_path
from support.small_broker import SmallBroker, pull_fields

MESSAGES = 32
"""Messages in one repetition."""


def sends(_: ExitStack) -> Callable[[], None]:
    """32 messages of 1 KiB, each in a frame of its own, in one read."""
    return _of_frames(b"".join(_send(number) for number in range(MESSAGES)))


def reads(stack: ExitStack) -> Callable[[], None]:
    """32 messages of 1 KiB in one turn of the loop, each read from a connection of its own, and answered."""
    # Under valgrind everything takes fifty times as long: clients would have to wait for their turns.
    stack.enter_context(patch.object(turns, "monotonic_ns", repeat(1 << 40).__next__))
    broker, _ = _small_broker(stack)
    divided = turns.Turns(broker.loop)
    peers = [broker.connect_hot(port, divided) for port in range(MESSAGES)]
    frames = [_send(number, "T") for number in range(MESSAGES)]

    def receive() -> None:
        for peer, frame in zip(peers, frames, strict=True):
            peer.receive(frame)

    def work() -> None:
        broker.run(receive)
        for peer in peers:
            assert peer.take_bytes()

    return work


def batch(_: ExitStack) -> Callable[[], None]:
    """One batch of 32 messages of 100 bytes."""
    return _of_frames(send_frame(encode_entry(b"x" * 100, 0, b"") * MESSAGES, m="true", i="", e="1"))


def _send(number: int, topic: str = "TopicTest") -> bytes:
    """A message of 1 KiB. As those of a client, frames differ in the queue, the time, the message's id and opaque."""
    properties = f"TAGS\x01TagA\x02KEYS\x01order-1\x02UNIQ_KEY\x01C0A8010A303918B4AAC247B76{number:07X}\x02WAIT\x01true"
    return send_frame(
        b"x" * 1024, 1000 + number, e=str(number % 4), g=str(1_700_000_000_000 + number), i=properties, b=topic
    )


def _of_frames(data: bytes) -> Callable[[], None]:
    log = LogInMemory(files=4, file_size=64 << 20)
    path = send_path(log)

    def work() -> None:
        log.appender.begin(NOW_MS)
        assert path.take(data, 0, BORN_HOST, 0, None) == len(data)
        log.appender.publish()
        assert path.take_answers()

    assert hot_send.COMPILED
    return work


def pull(stack: ExitStack) -> Callable[[], None]:
    """One pull of 32 messages of 1 KiB."""
    broker, data = _small_broker(stack)
    _append(broker, data)
    broker.dispatch()
    broker.pull_path.prepare(PullPlan("CG", "T", 4, None, 0, 1), 4, "*", 0, "TAG")
    fields = {key: str(value) for key, value in pull_fields(subscription="*", expressionType="TAG").items()}
    frame = create_request(RequestCode.PULL_MESSAGE, fields).encode()

    def work() -> None:
        answer = broker.pull_path.answer(frame, 0)
        assert answer is not None
        assert len(answer) > MESSAGES * 1024

    return work


def dispatch(stack: ExitStack) -> Callable[[], None]:
    """32 messages of 100 bytes with a key and a unique id, appended and then dispatched to the ConsumeQueue and the index."""
    broker, data = _small_broker(stack)

    def work() -> None:
        _append(broker, data)
        broker.dispatch()

    return work


def _small_broker(stack: ExitStack) -> tuple[SmallBroker, bytes]:
    """A broker, and the frames of 32 sends to a queue of it."""
    sizes = {
        "mapped_file_size_commit_log": 64 << 20,
        "mapped_file_size_consume_queue": 6_000_000,
        "max_index_num": 4_000_000,
    }
    broker = SmallBroker(Path(stack.enter_context(TemporaryDirectory())), store=sizes)
    stack.callback(broker.close)
    broker.topic()
    broker.path.prepare_topic(b"T", 4, 0)
    return broker, send_frame(b"x" * 1024, b="T", e="0") * MESSAGES


def _append(broker: SmallBroker, data: bytes) -> None:
    log = broker.appender.log
    log.begin(NOW_MS)
    assert broker.path.take(data, 0, BORN_HOST, 0, None) == len(data)
    log.publish()
    assert broker.path.take_answers()


KINDS = {"sends": sends, "reads": reads, "batch": batch, "pull": pull, "dispatch": dispatch}


def main() -> None:
    """Does the work of a kind so often."""
    with ExitStack() as stack:
        work = KINDS[sys.argv[1]](stack)
        gc.disable()
        for _ in range(int(sys.argv[2])):
            work()


if __name__ == "__main__":
    main()
