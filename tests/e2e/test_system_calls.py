"""System calls of the broker for each batch of the hot path: two waits, one read and one write, however many messages it has.

The waits are the event loop's and the one that asks for its readable sockets; all that is readable in a turn shares both.
What a call costs depends on the machine; how many there are does not. Each test sends a number of equal batches, one after the other, and lists
the calls of the broker's event loop with strace, from one batch's answers to the next. Most batches must have these four calls and no other.
Timers, registrations and the role's other threads add calls to some of them, by the second rather than by the batch: more on a slow machine.
"""

import re
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.protocol.frame import FrameDecoder
from headrace.protocol.headers.pull import PullMessageRequestHeader
from headrace.protocol.remoting_command import create_request
from support import load
from support.appliance import Appliance
from support.servers import wait_until

pytestmark = pytest.mark.slow

MIB = 1 << 20
BATCHES = 400
MESSAGES = 32
MOST = 0.75
"""Part of the batches that have no calls but their own. A call more in every second batch is found."""
WAIT, READ, WRITE, BELL = "wait", "read", "write", "bell"
KINDS = {
    **dict.fromkeys(("epoll_wait", "epoll_pwait"), WAIT),
    **dict.fromkeys(("read", "recvfrom", "recvmsg"), READ),
    **dict.fromkeys(("write", "writev", "sendto", "sendmsg"), WRITE),
}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    settings = {"mappedFileSizeCommitLog": str(64 * MIB), "maxHashSlotNum": "100000", "maxIndexNum": "400000"}
    with Appliance(tmp_path_factory.mktemp("calls") / "data", settings=settings) as started:
        yield started


def ask(peer: socket.socket, requests: bytes, count: int) -> int:
    """Sends requests at once, and returns how many of the answers have code 0."""
    peer.sendall(requests)
    decoder = FrameDecoder()
    codes: list[int] = []
    while len(codes) < count:
        data = peer.recv(1 << 20)
        assert data, "the broker closed the connection"
        codes += [answer.code for answer in decoder.feed(data)]
    return codes.count(0)


def calls_of_broker(appliance: Appliance, tmp_path: Path, work: Callable[[], None]) -> str:
    """What strace lists of the broker's main thread, which runs its event loop, while `work` runs."""
    table = tmp_path / "calls"
    pid = appliance.pid_of("broker")
    tracer = subprocess.Popen(["strace", "-qq", "-o", table, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: f"TracerPid:\t{tracer.pid}\n" in Path(f"/proc/{pid}/status").read_text(), 30, "strace")
        work()
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=30)
    return table.read_text()


def calls_of_batches(table: str) -> list[tuple[str, ...]]:
    """The calls of each batch: those from the answers of the batch before to its own answers, without waits that ended with nothing to do."""
    calls = [
        (KINDS.get(name, name), arguments, result)
        for name, arguments, result in re.findall(r"^(\w+)\((.*)\) += (-?\w+)", table, re.MULTILINE)
    ]
    peer, _ = Counter(descriptor_of(arguments) for kind, arguments, _ in calls if kind == READ).most_common(1)[0]
    batches: list[tuple[str, ...]] = []
    batch: list[str] = []
    for kind, arguments, result in calls:
        if kind == WAIT and result == "0":  # a timer's turn
            continue
        is_bell = (
            kind == WRITE and descriptor_of(arguments) != peer and result == "8"
        )  # an eventfd: dispatch was asleep
        batch.append(BELL if is_bell else kind)
        if kind == WRITE and not is_bell:
            batches.append(tuple(batch))
            batch = []
    return batches


def descriptor_of(arguments: str) -> str:
    return arguments.partition(",")[0]


def pull_frame() -> bytes:
    """A pull of MESSAGES messages from the beginning of a queue."""
    header = PullMessageRequestHeader(
        consumer_group="load", topic=load.TOPIC, queue_id=0, queue_offset=0, max_msg_nums=MESSAGES, sys_flag=4,
        commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="*", expression_type="TAG",
    )  # fmt: skip
    return create_request(header.CODE, header.to_ext()).encode()


REQUESTS: dict[str, Callable[[], tuple[bytes, int]]] = {
    "one send": lambda: (load.send_frame(), 1),
    "many sends": lambda: (load.send_frame() * MESSAGES, MESSAGES),
    "one pull of many messages": lambda: (pull_frame(), 1),
    "many pulls": lambda: (pull_frame() * 4, 4),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_batch_takes_two_waits_one_read_and_one_write(appliance: Appliance, tmp_path: Path, kind: str) -> None:
    requests, count = REQUESTS[kind]()
    with load.connect(appliance.ports[1], "127.0.0.1") as peer:
        assert ask(peer, load.send_frame() * MESSAGES, MESSAGES) == MESSAGES  # creates the topic
        wait_until(lambda: ask(peer, requests, count) == count, 30, "dispatch")

        def work() -> None:
            for _ in range(BATCHES):
                assert ask(peer, requests, count) == count

        batches = calls_of_batches(calls_of_broker(appliance, tmp_path, work))
    counts = Counter(batches)
    # A broker so slow that dispatch falls asleep after each batch rings its bell, once a batch.
    alone = sum(
        counts[calls]
        for calls in counts
        if sorted(calls) in (sorted((WAIT, WAIT, READ, WRITE)), sorted((WAIT, WAIT, READ, WRITE, BELL)))
    )
    assert len(batches) <= BATCHES / MOST, f"{len(batches) / BATCHES:.2f} writes a batch: {counts.most_common(5)}"
    assert alone >= BATCHES * MOST, (
        f"{alone} of {BATCHES} batches with two waits, one read and one write: {counts.most_common(5)}"
    )
