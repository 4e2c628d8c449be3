"""ProcessQueue: the offset that may be committed never passes an unconsumed message."""

import asyncio
import random

from headrace import MessageQueue
from headrace.client.consuming.process_queue import ProcessQueue
from headrace.client.consuming.received_message import Origin, ReceivedMessage, cut_records
from headrace.protocol.record import encode_record
from support.sdk import run

QUEUE = MessageQueue("T", "b", 0)


def messages(*offsets: int) -> list[ReceivedMessage]:
    data = b"".join(encode_record(topic="T", body=b"12345", queue_offset=offset) for offset in offsets)
    return cut_records(data, Origin(QUEUE, 0, 100))


def held(*offsets: int) -> tuple[ProcessQueue, list[ReceivedMessage]]:
    process_queue, some = ProcessQueue(QUEUE, 0), messages(*offsets)
    process_queue.put(some)
    return process_queue, some


def test_smallest_pending_offset_can_be_committed() -> None:
    process_queue, some = held(3, 4, 5, 9)
    assert process_queue.span == 6
    assert process_queue.remove([some[1]]) == 3
    assert process_queue.remove([some[0]]) == 5
    assert process_queue.remove([some[3], some[2]]) == 10
    assert (process_queue.count, process_queue.size, process_queue.span) == (0, 0, 0)
    assert process_queue.remove(some) == -1


def test_committed_offset_never_passes_an_unconsumed_message() -> None:
    chance = random.Random(7)
    for _ in range(50):
        process_queue, some = held(*range(40))
        left = set(range(40))
        chance.shuffle(some)
        while some:
            done = [some.pop() for _ in range(min(len(some), chance.randint(1, 5)))]
            left -= {message.queue_offset for message in done}
            assert process_queue.remove(done) == min(left, default=40)


def test_put_skips_messages_added_before() -> None:
    process_queue, some = held(0, 1, 2)
    process_queue.remove(some[:1])
    process_queue.put(messages(0, 1, 2, 3))
    assert process_queue.count == 3
    assert process_queue.max_offset == 3
    process_queue.put(messages(2, 3))
    assert process_queue.count == 3


def test_messages_in_progress_are_committed_or_rolled_back_in_order() -> None:
    process_queue, _ = held(0, 1, 2, 3, 4)
    assert process_queue.commit() == -1
    taken = process_queue.take(2)
    assert [message.queue_offset for message in taken] == [0, 1]
    assert (process_queue.waiting, process_queue.count) == (3, 5)
    process_queue.rollback()
    assert [message.queue_offset for message in process_queue.take(3)] == [0, 1, 2]
    process_queue.rollback(process_queue.take(0) or messages(2))
    assert process_queue.commit() == 2
    assert [message.queue_offset for message in process_queue.take(9)] == [2, 3, 4]
    assert process_queue.commit() == 5
    assert process_queue.size == 0


def test_info_has_the_fields_that_tools_expect() -> None:
    process_queue, _ = held(5, 6, 7)
    process_queue.take(1)
    process_queue.lock_confirmed()
    process_queue.drop()
    info = process_queue.info(5)
    assert (info.commit_offset, info.cached_msg_min_offset, info.cached_msg_max_offset, info.cached_msg_count) == (
        5,
        6,
        7,
        2,
    )
    assert (info.transaction_msg_min_offset, info.transaction_msg_max_offset, info.transaction_msg_count) == (5, 5, 1)
    assert info.locked
    assert info.droped
    assert process_queue.is_lock_valid


def test_waiters_are_woken_by_a_change_or_a_timeout() -> None:
    async def main() -> None:
        process_queue = ProcessQueue(QUEUE, 0)
        await process_queue.wait_changed(0.001)
        waiting = [asyncio.create_task(process_queue.wait_changed(30)) for _ in range(3)]
        await asyncio.sleep(0)
        process_queue.drop()
        await asyncio.gather(*waiting)

    run(main())


def test_rollback_does_not_restore_cleared_messages() -> None:
    process_queue, _ = held(1, 2, 3)
    taken = process_queue.take(2)
    process_queue.clear()
    process_queue.rollback(taken)
    assert (process_queue.count, process_queue.size, process_queue.commit()) == (0, 0, -1)
