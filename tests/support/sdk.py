"""Helpers for tests of the Python client: run a coroutine with a deadline, read a topic, detect leaks, wait patiently.

run(main(server))          # fails if tasks are left behind in the loop
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from headrace import Admin, BrokerError, ClientConfig, HeadraceError, MessageExt, MessageQueue, Producer, RouteNotFound
from headrace.client.cluster.instance import ClientInstance
from headrace.protocol.headers import PullMessageRequestHeader
from headrace.protocol.record import decode_records
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from support.servers import Server

T = TypeVar("T")

DEADLINE_S = 100
PATIENCE_S = 60.0
"""How long one request may take. A send that is given up is tried again, and may be stored twice: that is right, and no test of anything else."""


def run(main: Coroutine[Any, Any, T], deadline_s: float = DEADLINE_S) -> T:
    """Runs a test's coroutine on a new loop; AssertionError if it leaves a task or a thread behind."""
    threads = set(threading.enumerate())

    async def within() -> T:
        async with asyncio.timeout(deadline_s):
            result = await main
        left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, f"tasks are left behind: {left}"
        return result

    result = asyncio.run(within())
    end = time.monotonic() + DEADLINE_S
    for one in _not_of_a_console(set(threading.enumerate()) - threads):
        # A thread that was told to end does so when it is scheduled.
        one.join(max(0.0, end - time.monotonic()))
    left = [one.name for one in _not_of_a_console(set(threading.enumerate()) - threads) if one.is_alive()]
    assert not left, f"threads are left behind: {left}"
    return result


def _not_of_a_console(threads: set[threading.Thread]) -> list[threading.Thread]:
    """Without the threads of uvloop's executor: a console in this process starts them when it needs them, and `run` uses asyncio's own loop."""
    return [one for one in threads if not one.name.startswith("uvloop_")]


def patient(server: Server, **settings: Any) -> ClientConfig:
    """The configuration of a client with timeouts long enough for a busy machine."""
    return ClientConfig(server.name_server, **{"api_timeout": PATIENCE_S, **settings})


def producing(server: Server | ClientConfig, group: str, **options: Any) -> Producer:
    """A producer with timeouts long enough for a busy machine; not yet started."""
    config = server if isinstance(server, ClientConfig) else patient(server)
    return Producer(group, config, **{"send_timeout": PATIENCE_S, **options})


async def eventually(condition: Callable[[], Awaitable[T]], what: str, deadline_s: float = 60) -> T:
    """Waits until the condition is true and returns its value."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while True:
        said = await condition()
        if said:
            return said
        assert loop.time() < end, f"not within {deadline_s:g} s: {what}"
        await asyncio.sleep(0.05)


async def answered(ask: Callable[[], Awaitable[T]], what: str, deadline_s: float = 60) -> T:
    """Repeats a request until it is not refused and returns the answer.

    For data that brokers record after they have acknowledged: indexes, members, figures.
    """
    answers: list[T] = []

    async def is_answered() -> bool:
        try:
            answers.append(await ask())
        except (BrokerError, RouteNotFound):
            return False
        return True

    await eventually(is_answered, what, deadline_s)
    return answers[0]


async def pull(instance: ClientInstance, queue: MessageQueue, offset: int = 0) -> list[MessageExt]:
    """All messages of a queue from an offset on that the broker has now."""
    address = await instance.find_broker(queue.broker_name, queue.topic)
    messages: list[MessageExt] = []
    while True:
        header = PullMessageRequestHeader(
            consumer_group="dump", topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset, max_msg_nums=32, sys_flag=4,
            commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0, expression_type="TAG",
        )  # fmt: skip
        answer = await instance.request(address, create_request(RequestCode.PULL_MESSAGE, header.to_ext()), 30_000)
        if answer.code != ResponseCode.SUCCESS:
            return messages
        messages += decode_records(answer.body, inflate=True)
        offset = int(answer.ext["nextBeginOffset"])


async def dump(admin: Admin, topic: str, count: int, deadline_s: float = 60) -> list[MessageExt]:
    """All messages of a topic once there are `count`: they can be pulled only a little after they are acknowledged."""

    async def all_of_it() -> list[MessageExt]:
        try:
            queues = await admin.subscribe_queues(topic)
        except RouteNotFound:  # a broker registers an auto-created topic after it has acknowledged the message
            return []
        found = [message for queue in queues for message in await pull(admin._instance, queue)]
        return found if len(found) >= count else []

    if count == 0:
        return await all_of_it()
    return await eventually(all_of_it, f"{count} messages in {topic}", deadline_s)


def await_registered(name_server: str, deadline_s: float = 60) -> None:
    """Waits until a broker with auto-creation is known to the name server."""

    async def main() -> None:
        async with Admin(name_server) as admin:

            async def known() -> bool:
                try:
                    return bool((await admin.topic_route("TBW102")).broker_datas)
                except HeadraceError:
                    return False

            await eventually(known, "the broker is registered", deadline_s)

    run(main())
