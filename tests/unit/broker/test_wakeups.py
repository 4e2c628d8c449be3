"""The broker is rung only while somebody waits, and from the moment on that somebody does."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.offset_waiters import OffsetWaiters
from broker.pulling.held_pulls import HeldPull
from broker.wakeups import Waiting, Wakeups
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from ipc.control_layout import ASLEEP
from ipc.publish.flush import FlushPublisher
from ipc.role_context import RoleContext
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

    waiting = (
        Waiting(
            broker.instance.bells["broker"], lambda: broker.gate.has_waiting or bool(broker.appender.waiting_for_file)
        ),
        Waiting(broker.instance.pull_bell(), lambda: broker.held.size > 0),
    )
    wakeups = Wakeups(waiting, broker.control, look)
    wakeups.look()
    broker.held._on_hold = broker.gate._on_wait = broker.appender._on_wait = wakeups.ask
    looks.clear()
    return wakeups, looks


def is_asking(broker: SmallBroker) -> bool:
    return bool(broker.control.words[ASLEEP["broker"]])


def is_asking_dispatch(broker: SmallBroker) -> bool:
    return bool(broker.control.words[ASLEEP["pulls"]])


@pytest.fixture
def waiting(make_broker: MakeBroker) -> SmallBroker:
    broker = make_broker(store={"flush_disk_type": "SYNC_FLUSH"})
    broker.topic()
    return broker


def test_held_pull_is_answered_when_dispatch_rings(waiting: SmallBroker) -> None:
    wakeups, _ = wired(waiting)
    client = waiting.connect()
    assert not is_asking_dispatch(waiting)
    client.tell(RequestCode.PULL_MESSAGE, pull_fields(0, sysFlag=6, suspendTimeoutMillis=15000))
    assert (is_asking(waiting), is_asking_dispatch(waiting)) == (False, True)
    waiting.connect(40001).send(i="WAIT\x01false")
    waiting.dispatch()
    waiting.run(wakeups.look)
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]
    assert not is_asking_dispatch(waiting)


def test_nap_of_dispatch_is_ended_when_a_pull_begins_to_wait_for_its_records(
    waiting: SmallBroker, tmp_path: Path
) -> None:
    stop_fd = os.open(tmp_path, os.O_RDONLY)
    waiters = OffsetWaiters(
        RoleContext("broker", waiting.instance, waiting.instance.bells["broker"], stop_fd),
        waiting.instance.queue_table(),
    )
    bell = waiting.instance.bells["dispatch"]
    waiters.wakeups.look()
    bell.prepare_nap()
    waiters.held.hold(HeldPull(("Topic", 0), 15.0, lambda _: False))
    assert not bell.drain()  # all records are dispatched
    waiters.held.drop(None)
    waiters.wakeups.look()
    waiting.connect(40001).send(i="WAIT\x01false")
    waiters.held.hold(HeldPull(("Topic", 0), 15.0, lambda _: False))
    assert bell.drain()
    os.close(stop_fd)


def test_waiting_acknowledgement_requests_a_bell(waiting: SmallBroker) -> None:
    wakeups, _ = wired(waiting)
    client = waiting.connect()
    client.tell(RequestCode.SEND_MESSAGE_V2, send_fields())
    assert (is_asking(waiting), is_asking_dispatch(waiting)) == (True, False)
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
    assert is_asking_dispatch(waiting)


@pytest.mark.parametrize("is_pull_first", [False, True])
def test_each_of_both_bells_is_asked_for_when_the_other_is_already(waiting: SmallBroker, is_pull_first: bool) -> None:
    wakeups, _ = wired(waiting)
    client, sender = waiting.connect(), waiting.connect(40001)
    for is_pull in (is_pull_first, not is_pull_first):
        if is_pull:
            client.tell(RequestCode.PULL_MESSAGE, pull_fields(0, sysFlag=6, suspendTimeoutMillis=15000))
        else:
            sender.tell(RequestCode.SEND_MESSAGE_V2, send_fields())
    assert (is_asking(waiting), is_asking_dispatch(waiting)) == (True, True)
    FlushPublisher(waiting.control).flushed(waiting.control.wrote_offset, 1)
    waiting.run(wakeups.look)
    assert [answer.code for answer in sender.received()] == [ResponseCode.SUCCESS]
    assert (is_asking(waiting), is_asking_dispatch(waiting)) == (False, True)


def test_nothing_is_looked_at_while_nobody_waits(waiting: SmallBroker) -> None:
    wakeups, looks = wired(waiting)
    waiting.run(wakeups.look)
    assert not looks
    waiting.connect().tell(RequestCode.SEND_MESSAGE_V2, send_fields())
    waiting.run(wakeups.look)
    assert looks
    FlushPublisher(waiting.control).flushed(waiting.control.wrote_offset, 1)
    waiting.run(wakeups.look)


def test_new_broker_clears_what_a_killed_one_had_asked_for(waiting: SmallBroker) -> None:
    waiting.instance.bells["broker"].prepare_sleep()
    waiting.instance.pull_bell().prepare_sleep()
    wired(waiting)
    assert (is_asking(waiting), is_asking_dispatch(waiting)) == (False, False)
