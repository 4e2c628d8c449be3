"""A console in which every text that others choose is one that a careless page would run as a script.

Names are checked by client libraries, and brokers accept whatever a client sends. So the texts come from a client without a library.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from headrace.client.sending.send_hooks import MessageKind
from headrace.client.tracing.trace_records import publish_record
from headrace.model.message_id import decode_offset_message_id
from headrace.model.message_queue import MessageQueue
from headrace.model.subscription import SubscriptionData
from headrace.protocol.bodies import ConsumerRunningInfo
from headrace.protocol.bodies.consumer_state import ProcessQueueInfo
from headrace.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import create_request, response_to
from headrace.protocol.request_code import RequestCode
from support.appliance import Appliance
from support.console import PASSWORD, Browser, request
from support.console_world import QUICK, WAIT_S, World, declared_routes
from support.plain_client import PlainClient
from support.servers import free_port, wait_until
from web.alerts.alert_book import AlertBook
from web.alerts.evaluator import AlertEvent
from web.alerts.rules import What
from web.routes import Query

HOSTILE: Final = "'\"><svg onload=alert(1)>"
"""It ends an attribute with either quotes. A topic can have this name: no directory is named with a slash."""
HOSTILE_KEY: Final = HOSTILE.replace(" ", "/")
"""The same for browsers; spaces separate keys."""
BASE: Final = "/headrace"
LETTERS: Final = 3
ACL: Final = f"""globalWhiteRemoteAddresses: [127.0.0.1]
accounts:
- accessKey: operations
  secretKey: the-secret-of-operations
  admin: true
- accessKey: {json.dumps(HOSTILE)}
  secretKey: the-secret-of-nobody
  topicPerms: [Orders=PUB]
"""


class HostileClient:
    """A connected client of a producer group and a consumer group with hostile names, which reports hostile texts about itself."""

    def __init__(self, port: int, expression: str = HOSTILE) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._answer)
        consumer = ConsumerData(HOSTILE, subscription_data_set=[SubscriptionData("Orders", expression)])
        heartbeat = HeartbeatData(HOSTILE, [ProducerData(HOSTILE)], [consumer])
        self._socket.sendall(create_request(RequestCode.HEART_BEAT, body=heartbeat.encode()).encode())
        self._thread.start()

    def _answer(self) -> None:
        decoder = FrameDecoder()
        report = ConsumerRunningInfo(
            {HOSTILE: HOSTILE, "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"},
            [SubscriptionData("Orders", HOSTILE)],
            {MessageQueue("Orders", "broker-a", 0): ProcessQueueInfo()},
            jstack=HOSTILE,
        )
        while data := self._socket.recv(65_536):
            for command in decoder.feed(data):
                if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO and not command.is_response:
                    with contextlib.suppress(BrokenPipeError):  # the stream was ended since the request came
                        self._socket.sendall(response_to(command, 0, body=report.encode()).encode())

    def close(self) -> None:
        """Ends the stream; the thread reads on until the broker has closed too, as unread data would reset the connection."""
        self._socket.shutdown(socket.SHUT_WR)
        self._thread.join(30)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def hostile_world(folder: Path) -> Iterator[World]:
    """The world, below the path `BASE`, while it runs."""
    port, data = free_port(), folder / "data"
    (data / "conf").mkdir(parents=True)
    (data / "conf" / "plain_acl.yml").write_text(ACL)
    (data / "console").mkdir(mode=0o700)
    book = AlertBook(data / "console" / "alerts.db")
    book.record([AlertEvent(time.time(), HOSTILE, HOSTILE, True, 1.0, HOSTILE, What.BROKER_DOWN, 1.0)])
    book.close()
    account = {"consoleAccessKey": "operations", "consoleSecretKey": "the-secret-of-operations"}
    checks = {
        "transactionCheckInterval": "4000",
        "transactionCheckMax": "1000",
    }  # the first makes the topic of half messages
    settings = {**QUICK, **account, **checks, "brokerName": "broker-a", "consoleBasePath": BASE, "aclEnable": "true"}
    with Appliance(data, settings=settings, console_port=port) as appliance:
        wait_until(lambda: _is_up(port), WAIT_S, "console")
        world = World(appliance, port, _administrator(data / "console", port))
        routes = [route.path for route in declared_routes(folder / "declared") if isinstance(route, Query)]
        with (
            HostileClient(appliance.ports[1]),
            HostileClient(appliance.ports[1], "*"),  # the same client id with another subscription
            PlainClient(appliance.broker) as client,
        ):
            _fill(world, client)
            group = quote(HOSTILE, safe="")
            first = [
                f"/groups/{group}?q=1", f"/groups/{group}/members/{group}?stacks=yes", f"/dead-letters/{group}",
                f"/dead-letters/{group}/progress", f"/search?q={group}", f"/charts?series=group.lag/{group}",
                "/messages?by=time&topic=Orders", "/traces?key=k1", "/topics?kind=retry", f"/groups/{group}/reset?topic=Orders&to=start",
                f"/acl/check?action=pub&resource={group}", f"/acl/accounts/{group}", f"/alerts/rules/{group}",
                f"/alerts/channels/{group}", "/delays/timers", "/delays/broker-a/18", "/producers?kind=normal",
            ]  # fmt: skip
            world.crawl(routes, first)
            yield world
            log = (data / "logs" / "headrace.log").read_text()
            assert "request failed path" not in log, log[log.index("request failed path") :][:4_000]


def _is_up(port: int) -> bool:
    try:
        return request("GET", port, f"{BASE}/static/icon.svg").status == 200
    except OSError:
        return False


def _administrator(folder: Path, port: int) -> Browser:
    browser = Browser(port, BASE)
    token = (folder / "first-login").read_text().strip().partition("token=")[2]
    form = {"name": "admin", "password": PASSWORD, "again": PASSWORD}
    made = browser.post(f"/first-login?token={token}", form, {"User-Agent": HOSTILE})
    assert made.status == 303, made.text
    return browser


def _fill(world: World, client: PlainClient) -> None:
    admin = world.admin
    made = admin.send("/topics", {"topic": "Orders", "read_queues": "1", "write_queues": "1", "permission": "RW"})
    assert made.status == 303, made.cause
    texts = {"KEYS": f"k1 {HOSTILE_KEY}", "TAGS": HOSTILE, "UNIQ_KEY": HOSTILE, HOSTILE: HOSTILE, "PGROUP": HOSTILE}
    late = {"TIMER_DELAY_SEC": "3600"}
    offsets = []
    for more in ({}, {"DELAY": "18"}, late, {"TRAN_MSG": "true"}):
        properties = "".join(f"{name}\x01{value}\x02" for name, value in {**texts, **more}.items())
        system = 4 if "TRAN_MSG" in more else 0
        stored = client.send("Orders", HOSTILE.encode(), 0, properties, a=HOSTILE, f=system)
        assert stored.code == 0, stored.remark
        offsets.append(decode_offset_message_id(stored.ext["msgId"])[1])
    record = publish_record(
        timestamp=int(time.time() * 1000), region=HOSTILE, group=HOSTILE, topic=HOSTILE, message_id="ID1", tags=HOSTILE, keys=f"k1 {HOSTILE_KEY}",
        broker_address=HOSTILE, body_size=5, cost_ms=7, kind=MessageKind.NORMAL, offset_message_id=HOSTILE, is_success=True,
    )  # fmt: skip
    traced = client.send("RMQ_SYS_TRACE_TOPIC", record.text.encode(), 0, "KEYS\x01ID1 k1\x02")
    assert traced.code == 0, traced.remark
    back = {"offset": offsets[0], "group": HOSTILE, "delayLevel": -1, "originMsgId": HOSTILE, "originTopic": "Orders"}
    for _ in range(LETTERS):
        answer = client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        assert answer.code == 0, answer.remark
    position = {"consumerGroup": HOSTILE, "topic": "Orders", "queueId": 0, "commitOffset": 0}
    assert client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, position).code == 0
    for path, form in (
        ("/users", {"user": "olga", "password": PASSWORD, "role": "operator"}),
        ("/tokens", {"name": HOSTILE, "role": "viewer", "days": "1"}),
        ("/alerts/webhooks", {"name": HOSTILE, "url": f"http://127.0.0.1:9/?{quote(HOSTILE)}"}),
        ("/alerts/rules", {"name": HOSTILE, "what": "lag-messages", "threshold": "0", "for_s": "0", "channels": "log"}),
        ("/exports", {"target": "orders"}),
    ):
        page = admin.send(path, form)
        assert page.status == 303, (path, page.cause)
    letters = f"/dead-letters/{quote(HOSTILE, safe='')}"
    wait_until(lambda: admin.read(letters)["count"] == LETTERS, WAIT_S, "the dead letters")
    form = {"range": admin.read(letters)["ranges"][0], "to": "group", "rate": "50"}
    sent = admin.send(f"{letters}/resend-all", form)
    assert sent.status == 303, sent.cause
    for path, table in (
        ("/", "attention"),
        ("/", "findings"),
        ("/transactions", "halves"),
        ("/traces?key=k1", "messages"),
    ):
        wait_until(lambda: admin.read(path)[table]["rows"], WAIT_S, f"{table} of {path}")  # noqa: B023
