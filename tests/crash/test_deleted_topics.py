"""A deleted topic stays deleted across kills, and a later topic of the same name is a new topic."""

from pathlib import Path

from headrace.model.message import Message
from headrace.model.message_queue import MessageQueue
from headrace.sync import Admin, Producer, PullConsumer
from support.crash import SETTINGS, verify
from support.servers import wait_until
from support.watched import WatchedAppliance as Appliance

TOPIC = "Reborn"
QUEUES = 4


def send(appliance: Appliance, queue_id: int, *bodies: bytes) -> None:
    """Sends to one queue and returns when all messages are acknowledged."""
    with Producer("sender", appliance.name_server, send_timeout=60) as producer:
        queue = next(one for one in producer.queues(TOPIC) if one.queue_id == queue_id)
        for body in bodies:
            producer.send(Message(TOPIC, body), queue=queue)


def max_offsets(appliance: Appliance) -> list[int]:
    """The maximum offset of each queue, as clients see it."""
    with Admin(appliance.name_server) as admin:
        [broker] = admin.masters()
        return [admin.max_offset(MessageQueue(TOPIC, broker, queue_id)) for queue_id in range(QUEUES)]


def test_deleted_topic_stays_deleted_after_stop_and_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Appliance(data, settings=SETTINGS) as appliance:
        with Admin(appliance.name_server) as admin:
            admin.create_topic(TOPIC, QUEUES)
            for queue_id in range(QUEUES):
                send(appliance, queue_id, b"old", b"old", b"old")
            admin.delete_topic(TOPIC)
            admin.create_topic(TOPIC, QUEUES)
        send(appliance, 0, b"new")
        # A send is answered before it is dispatched, so the offset follows.
        wait_until(lambda: max_offsets(appliance) == [1, 0, 0, 0], 30, "the new message is in its queue")
        verify(appliance.store)
    verify(appliance.store)
    appliance = Appliance(data, settings=SETTINGS, ports=appliance.ports)
    try:
        send(appliance, 1, b"new")
        appliance.kill()
        appliance = Appliance(data, settings=SETTINGS, ports=appliance.ports)
        assert max_offsets(appliance) == [1, 1, 0, 0]
        appliance.stop()
    finally:
        appliance.kill()
    verify(appliance.store)


def test_group_reads_recreated_topic_from_its_first_message(tmp_path: Path) -> None:
    """An offset kept from the deleted topic would be beyond the new messages and survive a kill."""
    data = tmp_path / "data"
    appliance = Appliance(data, settings=SETTINGS)
    try:
        with Admin(appliance.name_server) as admin:
            admin.create_topic(TOPIC, QUEUES)
            send(appliance, 0, b"old", b"old", b"old")
            [broker] = admin.masters()
            queue = MessageQueue(TOPIC, broker, 0)
            admin.update_consumer_offset("readers", queue, 3)
            assert admin.consumer_offset("readers", queue) == 3
            admin.delete_topic(TOPIC)
        appliance.kill()
        appliance = Appliance(data, settings=SETTINGS, ports=appliance.ports)
        with Admin(appliance.name_server) as admin:
            admin.create_topic(TOPIC, QUEUES)
            send(appliance, 0, b"new")
            wait_until(lambda: max_offsets(appliance) == [1, 0, 0, 0], 30, "the new message is in its queue")
            assert (
                admin.consumer_offset("readers", queue) == 0
            )  # the offset of a group without one whose messages are all in memory
            with PullConsumer("readers", appliance.name_server) as consumer:
                result = consumer.pull(queue, "*", consumer.fetch_offset(queue) or 0)
                assert [message.body for message in result.messages] == [b"new"]
        appliance.stop()
    finally:
        appliance.kill()
