"""Clients for load on a broker, each kind in a process of its own: `python -m support.load KIND PORT …`.

    producers PORT COUNT SECONDS      COUNT synchronous producers, each with an address of its own; prints their latencies
    flood PORT CONNECTIONS IN_FLIGHT  one client: so many connections with so many sends in flight on each, until it is ended
    connects PORT IN_FLIGHT           one client: connects and disconnects, so many at a time, until it is ended
    handshakes PORT IN_FLIGHT         the same with the first message of a TLS handshake, which it never finishes
    stall PORT COUNT                  one client: COUNT connections that ask for long answers and read nothing, and COUNT that send a frame byte by byte

They use plain sockets and fixed frames, so that a request costs them some ten microseconds: the broker is what is measured.
"""

import contextlib
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from headrace.protocol.headers.send import SendMessageRequestHeaderV2
from headrace.protocol.remoting_command import create_request

TOPIC: Final = "Load"
FLOOD_ADDRESS: Final = "127.0.0.2"
STALL_ADDRESS: Final = "127.0.0.3"
CHURN_ADDRESS: Final = "127.0.0.4"
FIRST_TIMES: Final = 5
"""How often producers connect for their first answers: a single time is too uneven to tell."""
_REPOSITORY: Final = Path(__file__).parents[2]


def start(*arguments: object) -> "subprocess.Popen[str]":
    """Starts one of the programs above."""
    environment = {**os.environ, "PYTHONPATH": f"{_REPOSITORY}:{_REPOSITORY / 'tests'}"}
    return subprocess.Popen(
        [sys.executable, "-m", "support.load", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def expect(process: "subprocess.Popen[str]", word: str) -> None:
    """Waits until it has said so."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == word


def begin(process: "subprocess.Popen[str]") -> None:
    """Lets one that has connected begin."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def stop(process: "subprocess.Popen[str]") -> None:
    """Ends one that runs until it is ended."""
    process.kill()
    process.communicate()


def run_when_idle() -> None:
    """Lets this process have a core only while nobody else wants it.

    With the lowest of the usual priorities (nice 19) the kernel would still leave it the core until its next tick, 4 ms later.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def send_frame(size: int = 100) -> bytes:
    """A send to TOPIC."""
    header = SendMessageRequestHeaderV2(
        producer_group="load", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
        born_timestamp=1_700_000_000_000, flag=0, properties="KEYS\x011",
    )  # fmt: skip
    return create_request(header.CODE, header.to_ext(), b"x" * size).encode()


def connect(port: int, address: str) -> socket.socket:
    """A connection from an address."""
    peer = socket.socket()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.bind((address, 0))
    peer.connect(("127.0.0.1", port))
    return peer


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the sorted values are."""
    return values[min(int(len(values) * share), len(values) - 1)]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _connect_producers(port: int, count: int) -> tuple[dict[int, socket.socket], dict[int, float]]:
    """Producers by descriptor, and when each began to connect."""
    peers, began = {}, {}
    for number in range(count):
        at = time.perf_counter()
        peer = connect(port, f"127.1.{number // 250}.{number % 250 + 1}")
        peers[peer.fileno()], began[peer.fileno()] = peer, at
    return peers, began


def _first_answers(port: int, count: int, frame: bytes) -> list[float]:
    """From the connects to the first answers of producers that connect at once, in ms."""
    peers, began = _connect_producers(port, count)
    latencies: list[float] = []
    with contextlib.ExitStack() as stack, select.epoll() as epoll:
        for peer in peers.values():
            stack.enter_context(peer)
            epoll.register(peer, select.EPOLLIN)
            peer.sendall(frame)
        deadline = time.perf_counter() + 30
        while len(latencies) < count:
            for descriptor, _ in epoll.poll(1):
                latencies.append((time.perf_counter() - began[descriptor]) * 1000)
                epoll.unregister(descriptor)
                answer = peers[descriptor].recv(65536)
                assert b'"code":0,' in answer, answer
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{count - len(latencies)} of {count} producers have had no answer within 30 s")
    return latencies


def run_producers(port: int, count: int, seconds: float) -> dict[str, Any]:
    """Each connects, sends, waits for the answer, and sends again. Latencies in ms.

    `first_p50`: of the first sends, from the connect on, of producers that connect all at once, several times. The others are measured as soon as
    all have had a first answer.
    """
    frame, clock = send_frame(), time.perf_counter
    first = [latency for _ in range(FIRST_TIMES) for latency in _first_answers(port, count, frame)]
    peers, began = _connect_producers(port, count)
    epoll = select.epoll()
    for peer in peers.values():
        epoll.register(peer, select.EPOLLIN)
    latencies: list[float] = []
    failed = 0
    for peer in peers.values():
        peer.sendall(frame)
    unanswered, deadline = set(peers), clock() + 30
    end, cpu = clock() + seconds, time.process_time()
    while clock() < end or unanswered:
        if clock() > deadline:
            raise TimeoutError(f"{len(unanswered)} of {count} producers have had no answer within 30 s")
        for descriptor, _ in epoll.poll(1):
            peer = peers[descriptor]
            answer = peer.recv(65536)
            now = clock()
            latencies.append((now - began[descriptor]) * 1000)
            failed += b'"code":0,' not in answer
            began[descriptor] = now
            peer.send(frame)
            if descriptor in unanswered:
                unanswered.remove(descriptor)
                if not unanswered:
                    latencies.clear()
                    end, cpu, deadline = now + seconds, time.process_time(), now + seconds + 30
    cpu = time.process_time() - cpu
    now = clock()
    waiting = [(now - at) * 1000 for at in began.values()]
    for peer in peers.values():
        peer.close()
    latencies.sort()
    first.sort()
    return {
        "sent": len(latencies), "failed": failed, "cpu": cpu / seconds, "longest_waiting": max(waiting),
        "first_p50": percentile(first, 0.5), "p50": percentile(latencies, 0.5), "p99": percentile(latencies, 0.99), "max": latencies[-1],
    }  # fmt: skip


def run_flood(port: int, connections: int, in_flight: int) -> None:
    """Keeps so many sends in flight on each connection."""
    frame = send_frame()
    peers = {}
    unsent: dict[int, bytes] = {}  # what the kernel did not take, sent with the next answer
    epoll = select.epoll()
    for _ in range(connections):
        peer = connect(port, FLOOD_ADDRESS)
        peer.setblocking(False)
        peers[peer.fileno()] = peer
        epoll.register(peer, select.EPOLLIN)
    _say("connected")
    sys.stdin.readline()
    run_when_idle()
    for descriptor, peer in peers.items():
        frames = frame * in_flight
        unsent[descriptor] = frames[peer.send(frames) :]
    _say("sent")
    while True:
        for descriptor, _ in epoll.poll(1):
            peer = peers[descriptor]
            with contextlib.suppress(OSError):
                answers = peer.recv(65536)
                if not answers:
                    epoll.unregister(peer)
                    continue
                frames = unsent[descriptor] + frame * answers.count(b'"opaque"')
                unsent[descriptor] = frames
                unsent[descriptor] = frames[peer.send(frames) :]


def _client_hello() -> bytes:
    """The first message of a TLS handshake: the server answers it with its certificate and a signature."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def run_connects(port: int, in_flight: int, hello: bytes) -> None:
    """Connects, sends `hello` if there is any and waits for the answer, resets the connection, and connects again."""
    epoll = select.epoll()
    peers: dict[int, socket.socket] = {}
    wanted = select.EPOLLIN if hello else select.EPOLLOUT

    def begin_one() -> None:
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.bind((CHURN_ADDRESS, 0))
        peer.setblocking(False)
        peer.connect_ex(("127.0.0.1", port))
        peers[peer.fileno()] = peer
        epoll.register(peer, select.EPOLLOUT)

    _say("connected")
    sys.stdin.readline()
    run_when_idle()
    for _ in range(in_flight):
        begin_one()
    _say("sent")
    while True:
        for descriptor, event in epoll.poll(1):
            peer = peers[descriptor]
            if not event & wanted and not event & (select.EPOLLERR | select.EPOLLHUP):
                with contextlib.suppress(OSError):
                    peer.send(hello)
                    epoll.modify(descriptor, select.EPOLLIN)
                    continue
            epoll.unregister(descriptor)
            del peers[descriptor]
            peer.close()
            begin_one()


def run_stall(port: int, count: int) -> None:
    """Slow readers and slow writers."""
    topics = create_request(21).encode()
    readers, writers = [], []
    for _ in range(count):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.bind((STALL_ADDRESS, 0))
        reader.connect(("127.0.0.1", port))
        reader.setblocking(False)
        readers.append(reader)
        writers.append(connect(port, STALL_ADDRESS))
    _say("connected")
    sys.stdin.readline()
    run_when_idle()
    frame = send_frame(10_000)
    _say("sent")
    at = 0
    while True:
        for reader in readers:
            with contextlib.suppress(OSError):
                reader.send(topics * 100)
        for writer in writers:
            with contextlib.suppress(OSError):
                writer.send(frame[at : at + 1])
        at = (at + 1) % len(frame)
        time.sleep(0.05)


def main() -> None:
    """Runs the program that the command line names."""
    kind, *numbers = sys.argv[1:]
    if kind == "producers":
        _say(json.dumps(run_producers(int(numbers[0]), int(numbers[1]), float(numbers[2]))))
    elif kind == "flood":
        run_flood(*map(int, numbers))
    elif kind in ("connects", "handshakes"):
        run_connects(int(numbers[0]), int(numbers[1]), _client_hello() if kind == "handshakes" else b"")
    else:
        run_stall(*map(int, numbers))


if __name__ == "__main__":
    main()
