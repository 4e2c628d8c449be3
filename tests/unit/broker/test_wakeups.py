"""The broker is rung only while somebody waits, and from the moment on that somebody does."""

from collections.abc import Callable

import pytest

from broker.wakeups import Wakeups
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from ipc.control_layout import ASLEEP
from ipc.publish.flush import FlushPublisher
from support.small_broker import SmallBroker, pull_fields, send_fields

MakeBroker = Callable[..., SmallBroker]


def wired(broker: SmallBroker) -> tuple[Wakeups, list[None]]:
    """The broker's waiting places wired as its composition root does; and how often they were looked at."""
    looks: list[None] = []
    rows = broker.instance.changed_rows_reader()

    def look() -> None:
        looks.append(None)
        broker.gate.release()
        broker.appender.file_reserved()
        rows.take()
        broker.held.arrived(broker.held.queues())

    def is_anyone_waiting() -> bool:
        return bool(len(broker.held)) or broker.gate.has_waiting or broker.appender.is_waiting_for_file

    wakeups = Wakeups(broker.instance.bells["broker"], broker.control, is_anyone_waiting, look)
    wakeups.look()
    broker.held._on_hold = broker.gate._on_wait = broker.appender._on_wait = wakeups.ask
    looks.clear()
    return wakeups, looks


def is_asking(broker: SmallBroker) -> bool:
    return bool(broker.control.words[ASLEEP["broker"]])


@pytest.fixture
def waiting(make_broker: MakeBroker) -> SmallBroker:
    broker = make_broker(store={"flush_disk_type": "SYNC_FLUSH"})
    broker.topic()
    return broker


def test_held_pull_is_answered_when_dispatch_rings(waiting: SmallBroker) -> None:
    wakeups, _ = wired(waiting)
    client = waiting.connect()
    assert not is_asking(waiting)
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(0, sysFlag=6, suspendTimeoutMillis=15000))
    assert is_asking(waiting)
    waiting.connect(40001).send(i="WAIT\x01false")
    waiting.dispatch()
    waiting.run(wakeups.look)
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]
    assert not is_asking(waiting)


def test_waiting_acknowledgement_requests_a_bell(waiting: SmallBroker) -> None:
    wakeups, _ = wired(waiting)
    client = waiting.connect()
    client.tell(RequestCode.SEND_MESSAGE_V2, send_fields())
    assert is_asking(waiting)
    FlushPublisher(waiting.control).flushed(waiting.control.wrote_offset, 1)
    waiting.run(wakeups.look)
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]
    assert not is_asking(waiting)


def test_send_waiting_for_a_file_requests_a_bell(make_broker: MakeBroker) -> None:
    broker = make_broker(files=1)
    broker.topic()
    wakeups, _ = wired(broker)
    client = broker.connect()
    for _ in range(4):
        client.send(b"x" * 60_000)
    client.tell(RequestCode.SEND_MESSAGE_V2, send_fields(), b"x" * 60_000)
    assert is_asking(broker)
    assert client.received() == []
    broker.reserve(2)
    broker.run(wakeups.look)
    broker.run(lambda: None)
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]


def test_message_published_between_check_and_wait_is_not_missed(waiting: SmallBroker) -> None:
    _, looks = wired(waiting)
    waiting.connect(40001).send(i="WAIT\x01false")
    waiting.dispatch()
    client = waiting.connect()
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(1, sysFlag=6, suspendTimeoutMillis=15000))
    assert len(looks) == 1
    assert is_asking(waiting)
