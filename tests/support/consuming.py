"""Python consumers connected to one server, and handlers that collect what they receive."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

from headrace import BrokerNotFound, ClientConfig, HeadraceError, Message, MessageQueue, RouteNotFound
from headrace.client.admin import Admin
from headrace.client.consuming.push.push_consumer import PushConsumer
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.consuming.start_offset import StartFrom
from headrace.model.topic_config import TopicConfig
from support.sdk import patient, producing
from support.servers import Server

DEADLINE_S = 60.0


def config_for(server: Server, **settings: Any) -> ClientConfig:
    """A configuration for clients of this server: offsets are committed every half second, as by the Java client."""
    return patient(server, **{"persist_offsets": 0.5, **settings})


async def eventually(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Waits until a condition is true; raises AssertionError naming `what` if it is not in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            message = f"not within {deadline_s:g} s: {what}"
            raise AssertionError(message)
        await asyncio.sleep(0.02)


async def create_topic(server: Server, topic: str, queues: int = 4) -> None:
    """Creates a topic and waits until clients can find it."""
    async with Admin(patient(server)) as admin:
        await admin.update_topic(TopicConfig(topic, queues, queues), broker=server.broker)
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                if len(await admin.subscribe_queues(topic)) == queues:
                    return
            except HeadraceError:  # any error is retried until the deadline
                pass
            assert time.monotonic() < end, f"no route of {topic}"
            await asyncio.sleep(0.02)


async def send(
    server: Server, topic: str, count: int, *, first: int = 0, at_once: int = 1, **fields: Any
) -> list[bytes]:
    """Sends messages whose bodies are the numbers first … first+count-1 as text and returns the bodies.

    Sends one after the other or several at once. Returns when the messages can be pulled: the broker acknowledges them
    before its queues have them.
    """
    bodies = [str(number).encode() for number in range(first, first + count)]
    ends: dict[MessageQueue, int] = {}
    async with producing(server, "senders") as producer, Admin(patient(server)) as admin:
        for at in range(0, count, at_once):
            for sent in await asyncio.gather(
                *(producer.send(Message(topic, body, **fields)) for body in bodies[at : at + at_once])
            ):
                ends[sent.queue] = max(ends.get(sent.queue, 0), sent.queue_offset + 1)
        end = time.monotonic() + DEADLINE_S
        for queue, offset in ends.items():
            while await _max_offset(admin, queue) < offset:
                assert time.monotonic() < end, f"{queue} has not been dispatched as far as {offset}"
                await asyncio.sleep(0.005)
    return bodies


async def _max_offset(admin: Admin, queue: MessageQueue) -> int:
    try:
        return await admin.max_offset(queue)
    except (BrokerNotFound, RouteNotFound):
        # A broker that auto-creates a topic registers it with name servers after acknowledging the message.
        return 0


async def await_consumed(server: Server, group: str, topic: str) -> None:
    """Waits until the broker has stored that a group has consumed all of a topic."""
    async with Admin(patient(server)) as admin:
        end = time.monotonic() + DEADLINE_S
        while (await admin.consumer_progress(group, topic)).lag:
            assert time.monotonic() < end, f"{group} has not consumed {topic}"
            await asyncio.sleep(0.05)


class Gathered:
    """A handler that keeps what it receives."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []

    def __call__(self, message: ReceivedMessage) -> None:
        self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        """The bodies in the order received."""
        return [message.body for message in self.messages]

    async def receive(self, bodies: Iterable[bytes], deadline_s: float = DEADLINE_S) -> None:
        """Waits until all these bodies have been received."""
        wanted = set(bodies)
        try:
            await eventually(
                lambda: len(self.messages) >= len(wanted) and wanted <= set(self.bodies), "all messages", deadline_s
            )
        except AssertionError:
            missing = sorted(wanted - set(self.bodies))
            message = f"{len(missing)} of {len(wanted)} messages have not come, such as {missing[:3]}"
            raise AssertionError(message) from None


def push(server: Server, group: str, topic: str, handler: Any, **options: Any) -> PushConsumer:
    """Creates a push consumer that reads from the first message; it is not started."""
    settings = options.pop("config", None) or config_for(server)
    expression = options.pop("expression", "*")
    batch = options.pop("batch", False)
    consumer = PushConsumer(group, settings, **{"start_from": StartFrom.FIRST, **options})
    consumer.subscribe(topic, expression, handler, batch=batch)
    return consumer
