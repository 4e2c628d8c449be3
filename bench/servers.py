"""The servers that are measured, Apache's and ours: one broker, several masters, or a master with its slave."""

import contextlib
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from loads import TOPIC, Setup  # type: ignore[import-not-found]  # bench/ is not a package
from report import HEADRACE, REFERENCE, ROOT  # type: ignore[import-not-found]

sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from headrace.client.settings import ClientConfig, Credentials  # noqa: E402  (the repository is not installed)
from headrace.sync import Admin  # noqa: E402
from support.appliance import Appliance  # noqa: E402
from support.reference import Reference  # noqa: E402
from support.servers import wait_until  # noqa: E402
from support.several_brokers import SeveralBrokers  # noqa: E402

ACCOUNTS: Final = """accounts:
- accessKey: bench-account
  secretKey: bench-secret
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: PUB|SUB
"""
CREDENTIALS: Final = Credentials("bench-account", "bench-secret")
DEADLINE_S: Final = 60
DISPATCH_DEADLINE_S: Final = 180


class Servers:
    """Running servers of a setup; they are ready when the constructor returns, and a slave has copied a message."""

    def __init__(self, name: str, setup: Setup, work: Path, ports: tuple[int, int] | None = None) -> None:
        """`name`: whose. `work`: folder for their stores. `ports`: of the name server and of the first broker, which may be one that was stopped."""
        self.name, self.setup = name, setup
        self.masters: list[str] = []
        """HOST:PORT of each."""
        self.stores: list[Path] = []
        self._parts: list[Reference | Appliance] = []
        settings, data = dict(setup.settings), work / "data"
        if "aclEnable" in settings:
            (data / "conf").mkdir(parents=True, exist_ok=True)
            (data / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
        try:
            if name == REFERENCE:
                self._start_apache(settings, data, ports)
            elif setup.masters > 1 or setup.has_slave:
                self._start_several(settings, data)
            else:
                self._add(Appliance(data, ports=ports, settings=settings))
            if setup.has_slave:
                self._wait_for_slave()
        except BaseException:
            self.kill()
            raise

    def _add(self, part: Reference | Appliance) -> None:
        self._parts.append(part)
        self.masters.append(part.broker)
        self.stores.append(part.store)

    def _start_apache(self, settings: dict[str, str], data: Path, ports: tuple[int, int] | None) -> None:
        more = (f"--home={data}",) if "aclEnable" in settings else ()
        self._add(Reference(data, ports=ports, settings=settings, more=more))
        joins = ("--no-namesrv", f"--namesrv={self.name_server}")
        for number in range(1, self.setup.masters):
            name = f"broker-{number}"
            self._add(Reference(data.with_name(name), settings=settings, more=(*joins, f"--name={name}")))
        if self.setup.has_slave:
            settings = settings | {"brokerRole": "SLAVE", "haMasterAddress": f"127.0.0.1:{self.port + 1}"}
            slave = Reference(data.with_name("slave"), settings=settings, more=(*joins, "--name=broker-a", "--id=1"))
            self._parts.append(slave)
            self.stores.append(slave.store)

    def _start_several(self, settings: dict[str, str], data: Path) -> None:
        role = {"brokerRole": settings.pop("brokerRole", "ASYNC_MASTER")}
        tables: dict[str, dict[str, Any]] = {f"broker-{number}": dict(role) for number in range(self.setup.masters)}
        masters = list(tables)
        if self.setup.has_slave:
            tables["slave"] = {
                "brokerName": masters[0], "brokerId": 1, "brokerRole": "SLAVE", "haMasterAddress": f"ha:{masters[0]}",
            }  # fmt: skip
        appliance = SeveralBrokers(data, tables, settings=settings)
        self._parts.append(appliance)
        self.masters += [appliance.address_of(name) for name in masters]
        self.stores += [appliance.store_of(name) for name in tables]

    def _wait_for_slave(self) -> None:
        log = self.stores[-1] / "commitlog" / f"{0:020}"

        def has_copied() -> bool:
            with contextlib.suppress(OSError):
                send(self.port, "Link")
                with log.open("rb") as file:
                    return any(file.read(8))
            return False

        wait_until(has_copied, DEADLINE_S, "the slave has copied a message")
        wait_until(lambda: send(self.port, "Link") == 0, DEADLINE_S, "a send that the slave has confirmed")

    @property
    def name_server(self) -> str:
        """HOST:PORT of the name server."""
        return self._parts[0].name_server

    @property
    def port(self) -> int:
        """The first broker's."""
        return int(self.masters[0].split(":")[1])

    def pids(self) -> list[int]:
        """All processes."""
        return [pid for part in self._parts for pid in part.pids()]

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Creates a topic at each master."""
        ext = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        for master in self.masters:
            code, body = ask(int(master.split(":")[1]), 17, ext, b"")
            assert code == 0, body

    def stored(self, topics: list[str]) -> int:
        """How many messages the queues of these topics hold."""
        with Admin(ClientConfig(self.name_server, credentials=CREDENTIALS)) as admin:
            return sum(
                queue.max_offset - queue.min_offset
                for topic in topics
                for queue in admin.topic_stats(topic).offset_table.values()
            )

    def wait_dispatched(self) -> None:
        """Waits until all messages are in their queues."""
        wait_until(self._is_dispatched, DISPATCH_DEADLINE_S, "all messages are in their queues")

    def wait_replicated(self) -> None:
        """Waits until a slave in the appliance has all messages: stopped earlier, its log may end within a record."""
        appliance = self._parts[0]
        if self.setup.has_slave and isinstance(appliance, SeveralBrokers):
            wait_until(
                lambda: appliance.wrote("slave") == appliance.wrote("broker-0"),
                DEADLINE_S,
                "the slave has all messages",
            )

    def _is_dispatched(self) -> bool:
        """Whether all messages of the first broker are in their queues. Apache's broker has no figures in its first second."""
        code, body = ask(self.port, 28, {}, b"")
        return code == 0 and int(json.loads(body)["table"]["dispatchBehindBytes"]) == 0

    def cache_stores(self) -> None:
        """Reads the logs and indexes into the page cache. Apache's broker reads much of its log when it starts, ours does not."""
        piece = bytearray(1 << 20)
        for store in self.stores:
            for path in (*(store / "commitlog").iterdir(), *(store / "index").iterdir()):
                with path.open("rb", buffering=0) as file:
                    while file.readinto(piece):
                        pass

    def stop(self) -> None:
        """Stops them cleanly, the name server last."""
        for part in reversed(self._parts):
            part.stop()

    def kill(self) -> None:
        """Kills them, as in a crash."""
        for part in reversed(self._parts):
            part.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Apache's broker takes ten seconds to stop, and its store is not verified.
        if kind is None and self.name == HEADRACE:
            self.stop()
        else:
            self.kill()


class FirstMessage:
    """Starts at once to try to send a message to a broker and to look up that broker at its name server."""

    def __init__(self, ports: tuple[int, int]) -> None:
        """`ports`: of the name server and of the broker."""
        self._ports = ports
        self._began = time.monotonic()
        self._took_s = 0.0
        self._thread = threading.Thread(target=self._try, daemon=True)
        self._thread.start()

    def wait(self) -> float:
        """Seconds until both succeeded."""
        self._thread.join(120)
        if not self._took_s:
            message = f"no message could be sent to {self._ports} within 120 s"
            raise TimeoutError(message)
        return self._took_s

    def _try(self) -> None:
        self._until(lambda: send(self._ports[1], TOPIC) == 0)
        self._until(lambda: f":{self._ports[1]}".encode() in ask(self._ports[0], 106, {}, b"")[1])
        self._took_s = time.monotonic() - self._began

    @staticmethod
    def _until(condition: Callable[[], bool]) -> None:
        while True:
            try:
                if condition():
                    return
            except OSError:
                pass
            time.sleep(0.005)


def send(port: int, topic: str) -> int:
    """Sends a message on a new connection; the code of the response."""
    ext = {
        "a": "first", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": str(int(time.time() * 1000)), "h": "0", "i": "",
    }  # fmt: skip
    return ask(port, 310, ext, b"first")[0]


def ask(port: int, code: int, ext: dict[str, str], body: bytes) -> tuple[int, bytes]:
    """Sends one request on a new connection and returns code and body of the response."""
    head = {
        "code": code,
        "extFields": ext,
        "flag": 0,
        "language": "JAVA",
        "opaque": 1,
        "serializeTypeCurrentRPC": "JSON",
        "version": 407,
    }
    header = json.dumps(head).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        with connection.makefile("rb") as stream:
            (length,) = struct.unpack(">i", read(stream.read, 4))
            frame = read(stream.read, length)
    end = 4 + (struct.unpack_from(">i", frame)[0] & 0xFFFFFF)
    return int(json.loads(frame[4:end])["code"]), frame[end:]


def read(source: Callable[[int], bytes], count: int) -> bytes:
    """Exactly `count` bytes. ConnectionError if there are fewer."""
    if len(found := source(count)) < count:
        message = "the connection was closed in the middle of a frame"
        raise ConnectionError(message)
    return found
