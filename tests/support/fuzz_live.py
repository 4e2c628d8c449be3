"""Mutated input on the sockets of a running appliance, while a watcher checks that all roles still respond."""

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from headrace.protocol.frame import FrameDecoder
from headrace.protocol.headers.admin import CreateTopicRequestHeader
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from ipc.control_socket import ask
from support.appliance import Appliance
from support.fuzz_targets import ControlLines, FrameMutator, HaFrames
from support.mutations import Mutator

_UNKNOWN_CODE = 29_999  # answered at once by every server
_PING_S = 0.1
_SILENT_S = 1.0
_DEAD_S = 15.0
_READ_S = 2.0
# These work as requested: options that make a broker refuse all clients are no finding.
_LEFT_OUT = frozenset({RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG})
_STOPPING = (b"stop", b"start")


@dataclass
class Memory:
    """Resident bytes of each role."""

    by_role: dict[str, int]

    @classmethod
    def of(cls, appliance: Appliance) -> "Memory":
        """The current values."""
        roles = appliance.status()["roles"]
        return cls({name: psutil.Process(role["pid"]).memory_info().rss for name, role in roles.items() if role["pid"]})

    def growth_since(self, before: "Memory") -> dict[str, int]:
        """Growth in bytes, by role."""
        return {name: now - before.by_role[name] for name, now in self.by_role.items() if name in before.by_role}


class Watch:
    """Queries the name server, both ports of the broker, and the supervisor ten times a second; collects `findings`.

    A role silent for more than a second is a finding if it used the CPU meanwhile, or if it stays silent: on a loaded
    machine other processes may be at fault.
    """

    def __init__(self, appliance: Appliance, slowdown: int = 1) -> None:
        """`slowdown`: how much slower than usual its processes are."""
        self._silent_s = _SILENT_S * slowdown
        self.findings: list[str] = []
        self.longest_s: dict[str, float] = {}
        self.pings = 0
        self._appliance = appliance
        self._pids = {name: role["pid"] for name, role in appliance.status()["roles"].items() if role["pid"]}
        self._pids["supervisor"] = appliance.process.pid
        self._ends = threading.Event()
        ports = appliance.ports
        asks: dict[str, Callable[[], object]] = {
            "nameserver": lambda: self._ask_port(ports[0]),
            "broker": lambda: self._ask_port(ports[1]),
            "broker ": lambda: self._ask_port(ports[1] - 2),
            "supervisor": lambda: ask(appliance.data / "control.sock", {"command": "status"}, _DEAD_S),
        }
        self._threads = [threading.Thread(target=self._watch, args=(name, work)) for name, work in asks.items()]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends the watch. Restarts meanwhile are findings."""
        self._ends.set()
        for thread in self._threads:
            thread.join()
        for name, role in self._appliance.status()["roles"].items():
            if name in self._pids and role["pid"] != self._pids[name]:
                self.findings.append(f"{name} was restarted: pid {self._pids[name]} is now {role['pid']}")

    def _watch(self, name: str, work: Callable[[], object]) -> None:
        process = psutil.Process(self._pids[name.strip()])
        while not self._ends.wait(_PING_S):
            try:
                began, busy = time.monotonic(), _cpu_s(process)
                work()
                took, busy = time.monotonic() - began, _cpu_s(process) - busy
            except Exception as error:  # noqa: BLE001  (whatever it is, it is a finding)
                self.findings.append(f"{name} does not answer: {error!r}")
                return
            self.pings += 1
            self.longest_s[name] = max(self.longest_s.get(name, 0), took)
            if busy > self._silent_s:
                self.findings.append(f"{name} was silent for {took:.1f} s, busy for {busy:.1f} s of it")

    @staticmethod
    def _ask_port(port: int) -> None:
        request = RemotingCommand(_UNKNOWN_CODE, opaque=7)
        with socket.create_connection(("127.0.0.1", port), _DEAD_S) as client:
            client.settimeout(_DEAD_S)
            client.sendall(request.encode())
            decoder = FrameDecoder()
            while not decoder.feed(_some(client)):
                pass


def _some(client: socket.socket) -> bytes:
    data = client.recv(1 << 16)
    if not data:
        raise ConnectionError("closed without an answer")
    return data


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class Attack:
    """Sends mutated input to each socket of an appliance."""

    def __init__(self, appliance: Appliance, seed: int) -> None:
        self.sent = 0
        self.last: dict[str, list[bytes]] = {}
        """The inputs of the last connection to each."""
        self._appliance = appliance
        self._chance = random.Random(seed)
        self._frames = FrameMutator()
        self._reports = Mutator(HaFrames.seeds(HaFrames.__new__(HaFrames)))
        self._lines = Mutator(ControlLines.seeds(ControlLines.__new__(ControlLines))[:1], texts=True)

    def run(self, connections: int, inputs: int = 6) -> None:
        """Opens this many connections, alternating between sockets, with this many inputs each.

        The inputs are few, because the first one that is no frame ends a connection.
        """
        name_server, broker = self._appliance.ports
        for number in range(connections):
            kind = number % 8
            if kind == 0:
                self._send("nameserver", name_server, [self._frame() for _ in range(inputs)])
            elif kind == 1:
                self._send("VIP channel", broker - 2, [self._frame() for _ in range(inputs)])
            elif kind == 2:
                self._send("HA", broker + 1, [self._reports.mutate(self._chance) for _ in range(inputs)])
            elif kind == 3:
                lines = [self._lines.mutate(self._chance) for _ in range(inputs)]
                self._send("control", None, [one for one in lines if not any(word in one for word in _STOPPING)])
            else:
                self._send("broker", broker, [self._frame() for _ in range(inputs)])

    def _frame(self) -> bytes:
        while True:
            frame = self._frames.make(self._chance)
            if not any(_has_code(frame, code) for code in _LEFT_OUT):
                return frame

    def _send(self, name: str, port: int | None, inputs: list[bytes]) -> None:
        self.last[name] = inputs
        self.sent += len(inputs)
        family = socket.AF_UNIX if port is None else socket.AF_INET
        with (
            socket.socket(family) as client,
            contextlib.suppress(OSError),
        ):  # the peer may disconnect and leave the rest unread
            client.settimeout(_READ_S)
            client.connect(str(self._appliance.data / "control.sock") if port is None else ("127.0.0.1", port))
            for one in inputs:
                client.sendall(one)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass


def _has_code(frame: bytes, code: int) -> bool:
    return b'"code":%d' % code in frame or (
        len(frame) > 10 and frame[4] == 1 and frame[8:10] == code.to_bytes(2, "big")
    )


def make_topic(appliance: Appliance, name: str) -> None:
    """Creates a topic of eight queues."""
    header = CreateTopicRequestHeader(
        topic=name, default_topic="TBW102", read_queue_nums=8, write_queue_nums=8, perm=6, topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
    )  # fmt: skip
    request = RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, opaque=1, ext_fields=header.to_ext())
    with socket.create_connection(("127.0.0.1", appliance.ports[1]), _DEAD_S) as client:
        client.sendall(request.encode())
        decoder = FrameDecoder()
        while not (answers := list(decoder.feed(_some(client)))):
            pass
    assert answers[0].code == 0, answers[0].remark


def hostile_batches() -> list[bytes]:
    """Frames that once crashed the broker: lengths in a batch's body that are negative as signed numbers."""
    head = bytes.fromhex("00000016 00000000 00000000 00000000")
    bodies = [head + length + bytes(52) for length in (b"\x80\0\0\0", b"\x90\0\0\0", b"\xff\xff\xff\xea")]
    entry = head + bytes(6)
    fields = {
        "a": "PG",
        "b": "TopicTest",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": "",
        "j": "0",
        "k": "false",
        "m": "true",
    }
    return [
        RemotingCommand(RequestCode.SEND_BATCH_MESSAGE, opaque=1, ext_fields=fields, body=body).encode()
        for one in bodies
        for body in (one, entry + one, entry + one[:22])
    ]


__all__ = ["Attack", "Memory", "Watch", "hostile_batches", "make_topic"]
