"""The push consumer at Apache's broker and at ours: distribution, retries, offsets."""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace import (
    ConfigError,
    ConsumeContext,
    ConsumeResult,
    Message,
    MessageModel,
    MessageQueue,
    PushConsumer,
    Reject,
    Retry,
    Sql,
    StartFrom,
    Suspend,
    Tags,
)
from headrace.client.admin import Admin
from headrace.client.consuming.received_message import ReceivedMessage
from support.consuming import Gathered, await_consumed, config_for, create_topic, eventually, push, send
from support.not_served import serves
from support.sdk import answered, patient, producing, run
from support.servers import Server


def test_every_message_is_received_once_and_unchanged(server: Server) -> None:
    async def scenario() -> None:
        gathered = Gathered()
        await create_topic(server, "PushPlain")
        consumer = push(server, "push-plain", "PushPlain", gathered)
        async with producing(server, "p") as producer, consumer:
            sent = [
                await producer.send(
                    Message("PushPlain", f"body {number}", tags="t", keys=["k1", f"k{number}"], properties={"a": "b"})
                )
                for number in range(50)
            ]
            await gathered.receive([f"body {number}".encode() for number in range(50)])
        received = {message.message_id: message for message in gathered.messages}
        assert len(gathered.messages) == 50
        for number, result in enumerate(sent):
            message = received[result.message_id]
            assert message.body == f"body {number}".encode()
            assert (message.topic, message.tags, message.keys) == ("PushPlain", "t", ["k1", f"k{number}"])
            assert message.properties["a"] == "b"
            assert message.queue == result.queue
            assert message.queue_offset == result.queue_offset
            assert message.offset_message_id == result.offset_message_id
            assert message.max_offset > message.queue_offset
            assert message.reconsume_times == 0

    run(scenario())


@pytest.mark.parametrize("kind", ["plain", "coroutine", "batch", "batch coroutine"])
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_handlers_may_be_functions_or_coroutines_for_one_or_many_messages(
    server: Server, kind: str, orderly: bool
) -> None:
    async def scenario() -> None:
        gathered = Gathered()
        threads: set[str] = set()

        def one(message: ReceivedMessage) -> None:
            threads.add(threading.current_thread().name)
            gathered(message)

        async def one_async(message: ReceivedMessage) -> None:
            await asyncio.sleep(0)
            one(message)

        def many(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
            assert 1 <= len(messages) <= 8
            assert {message.queue for message in messages} == {context.queue}
            for message in messages:
                one(message)
            return ConsumeResult.SUCCESS

        async def many_async(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> None:
            many(messages, context)

        handler = {"plain": one, "coroutine": one_async, "batch": many, "batch coroutine": many_async}[kind]
        topic = f"PushKinds-{kind.replace(' ', '-')}-{orderly}"
        await create_topic(server, topic)
        bodies = await send(server, topic, 200)
        async with push(server, topic, topic, handler, batch=kind.startswith("batch"), batch_size=8, orderly=orderly):
            await gathered.receive(bodies)
        assert len(gathered.messages) == 200
        in_loop = "MainThread" in threads
        assert in_loop == kind.endswith("coroutine")
        if orderly:
            for queue in range(4):
                offsets = [message.queue_offset for message in gathered.messages if message.queue_id == queue]
                assert offsets == sorted(offsets)

    run(scenario())


def test_returning_push_consumer_resumes_at_its_offset(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushAgain")
        first = await send(server, "PushAgain", 100)
        gathered = Gathered()
        async with push(server, "push-again", "PushAgain", gathered):
            await gathered.receive(first)
        second = await send(server, "PushAgain", 100, first=100)
        again = Gathered()
        async with push(server, "push-again", "PushAgain", again):
            await again.receive(second)
        assert sorted(again.bodies) == sorted(second)
        async with Admin(patient(server)) as admin:
            progress = await admin.consumer_progress("push-again", "PushAgain")
        assert progress.lag == 0

    run(scenario())


def test_push_consumer_selects_by_tags(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushTags")
        async with producing(server, "p") as producer:
            for number, tag in enumerate(["a", "b", "c", None] * 10):
                await producer.send(Message("PushTags", str(number), tags=tag))
        one, other = Gathered(), Gathered()
        async with (
            push(server, "push-tags-1", "PushTags", one, expression="a || b"),
            push(server, "push-tags-2", "PushTags", other, expression=Tags("c")),
        ):
            await eventually(lambda: len(one.messages) >= 20 and len(other.messages) >= 10, "both have their tags")
        assert Counter(message.tags for message in one.messages) == {"a": 10, "b": 10}
        assert Counter(message.tags for message in other.messages) == {"c": 10}

    run(scenario())


def test_start_fails_when_the_broker_refuses_the_expression(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushSql")
        consumer = push(server, "push-sql", "PushSql", Gathered(), expression=Sql("a > > 3"))
        with pytest.raises(ConfigError, match="rejects"):
            await consumer.start()
        assert not consumer.is_running

    run(scenario())


def test_failed_message_is_retried_and_then_becomes_a_dead_letter(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushFails")
        seen: list[tuple[bytes, int]] = []

        def handler(message: ReceivedMessage) -> ConsumeResult | None:
            seen.append((message.body, message.reconsume_times))
            if message.body == b"0" and message.reconsume_times < 2:
                raise Retry(delay_level=1)
            if message.body == b"1" and not message.reconsume_times:
                return ConsumeResult.RETRY
            if message.body == b"2":
                raise Reject("of no use")
            assert message.topic == "PushFails"
            return None

        dead = Gathered()
        async with push(server, "push-fails", "PushFails", handler) as consumer:
            await send(server, "PushFails", 4)
            wanted = {(b"0", 0), (b"0", 1), (b"0", 2), (b"1", 0), (b"1", 1), (b"2", 0), (b"3", 0)}
            await eventually(lambda: wanted <= set(seen), "all tries")
            assert any(queue.topic == "%RETRY%push-fails" for queue in consumer.assignment())
        assert Counter(seen) == Counter(wanted)
        async with push(server, "push-fails-dead", "%DLQ%push-fails", dead):
            await dead.receive([b"2"])
        (letter,) = dead.messages
        assert letter.properties["RETRY_TOPIC"] == "PushFails"
        assert letter.properties["ORIGIN_MESSAGE_ID"]

    run(scenario())


def test_only_messages_after_ack_index_are_retried(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushAckIndex", 1)
        bodies = await send(server, "PushAckIndex", 8)
        calls: list[list[tuple[bytes, int]]] = []

        def handler(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> None:
            calls.append([(message.body, message.reconsume_times) for message in messages])
            if not messages[0].reconsume_times:
                context.ack_index = 5
                context.delay_level = 1

        async with push(server, "push-ack-index", "PushAckIndex", handler, batch=True, batch_size=8):
            await eventually(lambda: sum(map(len, calls)) >= 10, "two of them again")
        assert calls[0] == [(body, 0) for body in bodies]
        assert sorted(one for call in calls[1:] for one in call) == [(b"6", 1), (b"7", 1)]

    run(scenario())


def test_orderly_queue_waits_for_a_failed_message(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "OrderlyFails", 1)
        bodies = await send(server, "OrderlyFails", 6)
        seen: list[tuple[bytes, int]] = []

        def handler(message: ReceivedMessage) -> None:
            seen.append((message.body, message.reconsume_times))
            if message.body == b"2" and message.reconsume_times < 2:
                raise Suspend(0.05)

        async with push(server, "orderly-fails", "OrderlyFails", handler, orderly=True):
            await eventually(lambda: len(seen) >= 8, "all, and one of them three times")
        assert seen == [(b"0", 0), (b"1", 0), (b"2", 0), (b"2", 1), (b"2", 2), (b"3", 0), (b"4", 0), (b"5", 0)]
        assert [body for body, times in seen if not times] == bodies

    run(scenario())


def test_orderly_message_that_fails_too_often_becomes_a_dead_letter(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "OrderlyDead", 1)
        bodies = await send(server, "OrderlyDead", 4)
        seen: list[bytes] = []

        async def handler(message: ReceivedMessage) -> None:
            seen.append(message.body)
            if message.body == b"1":
                raise ValueError(message.body)

        logging.getLogger("headrace.client.consuming.push.consume_handler").setLevel(logging.CRITICAL)
        async with push(
            server, "orderly-dead", "OrderlyDead", handler, orderly=True, max_reconsume_times=2, suspend_time=0.02
        ):
            await eventually(lambda: set(bodies) <= set(seen), "the others")
        assert seen == [b"0", b"1", b"1", b"1", b"2", b"3"]
        dead = Gathered()
        async with push(server, "orderly-dead-letters", "%DLQ%orderly-dead", dead):
            await dead.receive([b"1"])

    try:
        run(scenario())
    finally:
        logging.getLogger("headrace.client.consuming.push.consume_handler").setLevel(logging.NOTSET)


def test_orderly_handler_can_commit_explicitly(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "OrderlyCommit", 1)
        await send(server, "OrderlyCommit", 6)
        seen: list[bytes] = []

        def handler(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> None:
            context.auto_commit = False
            context.suspend_seconds = 0.02
            seen.extend(message.body for message in messages)
            if seen.count(b"2") == 1 and messages[-1].body == b"2":
                context.rollback()
            elif messages[-1].body in (b"2", b"5"):
                context.commit()

        async with push(server, "orderly-commit", "OrderlyCommit", handler, orderly=True, batch=True):
            await eventually(lambda: seen[-1:] == [b"5"], "all of them")
        assert seen == [b"0", b"1", b"2", b"0", b"1", b"2", b"3", b"4", b"5"]

    run(scenario())


def test_broadcasting_members_receive_everything_and_store_offsets_locally(server: Server, tmp_path: Path) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushBroadcast")
        bodies = await send(server, "PushBroadcast", 40)
        both = Gathered(), Gathered()

        def member(name: str, gathered: Gathered) -> PushConsumer:
            config = config_for(server, instance_name=name)
            return push(
                server, "push-broadcast", "PushBroadcast", gathered, config=config, model=MessageModel.BROADCASTING,
                offsets_directory=tmp_path,
            )  # fmt: skip

        async with member("one", both[0]) as one, member("two", both[1]):
            await asyncio.gather(*(gathered.receive(bodies) for gathered in both))
            folder = tmp_path / one.client_id / "push-broadcast"
        assert [sorted(gathered.bodies) for gathered in both] == [sorted(bodies)] * 2
        assert '"offsetTable":{{' in "".join((folder / "offsets.json").read_text().split())
        more = await send(server, "PushBroadcast", 40, first=40)
        again = Gathered()
        async with member("one", again):
            await again.receive(more)
        assert sorted(again.bodies) == sorted(more)

    run(scenario())


def test_new_group_begins_at_the_configured_position(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushBegin", 1)
        bodies = await send(server, "PushBegin", 10)
        # Brokers return 0 for a new group on a young queue; a time or the end applies only where they have no offset.
        for group, start in (("begin-first", StartFrom.FIRST), ("begin-last", StartFrom.LAST)):
            gathered = Gathered()
            async with push(server, group, "PushBegin", gathered, start_from=start):
                await gathered.receive(bodies)

    run(scenario())


def test_flow_control_delays_pulls(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushFlow", 1)
        bodies = await send(server, "PushFlow", 200)
        let_go = asyncio.Event()
        gathered = Gathered()

        async def handler(message: ReceivedMessage) -> None:
            await let_go.wait()
            gathered(message)

        events: list[str] = []
        config = config_for(server, on_event=lambda event: events.append(event.kind))
        async with push(
            server, "push-flow", "PushFlow", handler, config=config, queue_threshold=40, pull_batch_size=10
        ) as consumer:
            await eventually(lambda: "flow_control" in events, "enough is here")
            info = await consumer.running_info(with_stacks=True)
            held = [one for queue, one in info.mq_table.items() if queue.topic == "PushFlow"]
            assert [one.cached_msg_count for one in held] == [50]
            assert info.jstack
            let_go.set()
            await gathered.receive(bodies)

    run(scenario())


def test_paused_consumer_receives_nothing_until_resumed(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushPause")
        gathered = Gathered()
        async with push(server, "push-pause", "PushPause", gathered, pull_batch_size=1) as consumer:
            await gathered.receive(await send(server, "PushPause", 10))
            consumer.pause()
            assert consumer.is_paused
            # A pull of each queue that was in flight may still return one message; later ones do not happen.
            later = await send(server, "PushPause", 80, first=10)
            assert len(gathered.messages) <= 10 + 4
            consumer.resume()
            await gathered.receive(later)
        assert len(gathered.messages) == 90

    run(scenario())


def test_subscriptions_can_change_at_run_time(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushMore1")
        await create_topic(server, "PushMore2")
        one, two = Gathered(), Gathered()
        async with push(server, "push-more", "PushMore1", one) as consumer:
            await one.receive(await send(server, "PushMore1", 10))
            consumer.subscribe("PushMore2", "*", two)
            await two.receive(await send(server, "PushMore2", 10))
            consumer.unsubscribe("PushMore1")
            await eventually(
                lambda: not any(q.topic == "PushMore1" for q in consumer.assignment()), "its queues are gone"
            )

    run(scenario())


def test_messages_can_be_iterated_one_by_one(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushStream")
        bodies = await send(server, "PushStream", 50)
        consumer = PushConsumer("push-stream", config_for(server), start_from=StartFrom.FIRST)
        consumer.subscribe("PushStream")
        taken: list[bytes] = []
        async with consumer:
            async for message in consumer:
                taken.append(message.body)
                if len(taken) == 30:
                    break
        # The 30th was not completed, so it is redelivered.
        rest: list[bytes] = []
        consumer = PushConsumer("push-stream", config_for(server), start_from=StartFrom.FIRST)
        consumer.subscribe("PushStream")
        async with consumer:
            async for message in consumer:
                rest.append(message.body)
                if {*taken[:-1], *rest} == set(bodies):
                    break
        # At most one per queue was in flight.
        assert len(set(taken) & set(rest)) <= 4

    run(scenario())


def test_three_members_share_queues_and_take_over_from_each_other(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushShare", 6)
        gathered = [Gathered() for _ in range(3)]
        members = [push(server, "push-share", "PushShare", one) for one in gathered]

        def shares() -> list[int]:
            return sorted(len([q for q in m.assignment() if q.topic == "PushShare"]) for m in members if m.is_running)

        for count, member in enumerate(members, 1):
            await member.start()
            await eventually(lambda count=count: shares() == [6 // count] * count, f"{count} share")  # type: ignore[misc]
        bodies = await send(server, "PushShare", 300)
        await eventually(lambda: sum(len(one.messages) for one in gathered) >= 300, "all messages")
        assert sorted(body for one in gathered for body in one.bodies) == sorted(bodies)
        assert all(one.messages for one in gathered)
        # The first retry comes ten seconds after the start.
        for member in members:
            await member.persist_offsets()
        await await_consumed(server, "push-share", "PushShare")
        await members[0].close()
        await eventually(lambda: shares() == [3, 3], "two share")
        more = await send(server, "PushShare", 300, first=300)
        await eventually(lambda: sum(len(one.messages) for one in gathered) >= 600, "all messages")
        assert sorted(body for one in gathered for body in one.bodies) == sorted([*bodies, *more])
        await members[1].close()
        await members[2].close()

    run(scenario())


def test_orderly_members_hand_over_queues_without_duplicates_under_load(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "OrderlyShare", 4)
        seen: list[tuple[int, int]] = []

        def handler(message: ReceivedMessage) -> None:
            time.sleep(0.001)
            seen.append((message.queue_id, message.queue_offset))

        one = push(server, "orderly-share", "OrderlyShare", handler, orderly=True)
        two = push(server, "orderly-share", "OrderlyShare", handler, orderly=True)
        async with one:
            sending = asyncio.create_task(send(server, "OrderlyShare", 3000, at_once=16))
            await eventually(lambda: len(seen) > 200, "it has begun")
            async with two:
                await eventually(
                    lambda: len([q for q in two.assignment() if q.topic == "OrderlyShare"]) == 2, "two share"
                )
                before = len(seen)
                await eventually(lambda: len(seen) > before + 200, "both are at it")
            await sending
            await eventually(lambda: len(set(seen)) == 3000, "all")
        assert len(seen) == 3000
        for queue in range(4):
            offsets = [offset for number, offset in seen if number == queue]
            assert offsets == list(range(len(offsets)))

    run(scenario())


def test_admin_tools_show_a_connected_consumer(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushSeen", 2)
        consumer = push(server, "push-seen", "PushSeen", Gathered(), expression="a || b")
        async with consumer, Admin(patient(server)) as admin:
            await eventually(lambda: len(consumer.assignment()) >= 2, "its queues")
            connections = await answered(lambda: admin.consumer_connection("push-seen"), "the broker knows it")
            assert [one.client_id for one in connections.connection_set] == [consumer.client_id]
            assert connections.consume_type == "CONSUME_PASSIVELY"
            assert connections.subscription_table["PushSeen"].sub_string == "a || b"

    run(scenario())


@serves("relays")
def test_consumer_answers_admin_requests_relayed_by_its_broker(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushAsked", 2)
        gathered = Gathered()
        consumer = push(server, "push-asked", "PushAsked", gathered)
        async with consumer, Admin(patient(server)) as admin:
            bodies = await send(server, "PushAsked", 20)
            await gathered.receive(bodies)
            await eventually(lambda: len(consumer.assignment()) == 3, "the retry topic's queue as well")
            # The offset moves past a message only after its handler has returned.
            await eventually(lambda: sum(consumer.offsets("PushAsked").values()) == 20, "all are done with")
            await consumer.persist_offsets()
            info = await admin.running_info("push-asked", consumer.client_id)
            assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert {queue.topic for queue in info.mq_table} == {"PushAsked", "%RETRY%push-asked"}
            assert info.status_table["PushAsked"].consume_ok_tps > 0
            status = await admin.consumer_status("PushAsked", "push-asked")
            assert sum(status[consumer.client_id].values()) == 20
            first = gathered.messages[0]
            result = await admin.consume_directly("push-asked", consumer.client_id, first.offset_message_id)
            assert result.consume_result == "CR_SUCCESS"
            assert gathered.messages[-1].body == first.body
            assert len(gathered.messages) == 21
            await admin.reset_offsets("push-asked", "PushAsked", first.born_timestamp - 60_000)
            await eventually(lambda: len(gathered.messages) >= 41, "all of them again")
            assert Counter(gathered.bodies[21:]) == Counter(bodies)

    run(scenario())


def test_namespace_is_hidden_from_handlers(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "space%PushSpace", 2)
        config = patient(server, namespace="space", persist_offsets=0.5)
        seen: list[tuple[str, MessageQueue, int]] = []

        def handler(message: ReceivedMessage) -> None:
            seen.append((message.topic, message.queue, message.reconsume_times))
            if not message.reconsume_times:
                raise Retry(1)

        async with (
            producing(config, "p") as producer,
            push(server, "push-space", "PushSpace", handler, config=config) as consumer,
        ):
            assert consumer.group == "space%push-space"
            await producer.send(Message("PushSpace", b"x"))
            await eventually(lambda: len(seen) >= 2, "it, and again")
            assert {queue.topic for queue in consumer.assignment()} == {"PushSpace", "%RETRY%push-space"}
        assert [topic for topic, _, _ in seen] == ["PushSpace", "PushSpace"]
        assert seen[0][1].topic == "PushSpace"
        assert seen[1][1].topic == "%RETRY%push-space"

    run(scenario())


def test_topic_created_later_is_consumed(server: Server) -> None:
    async def scenario() -> None:
        gathered = Gathered()
        async with push(server, "push-later", "PushLater", gathered):
            await asyncio.sleep(0)
            bodies = await send(server, "PushLater", 5)
            await gathered.receive(bodies)

    run(scenario())


def test_close_waits_for_handlers_and_stores_their_offsets(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PushClose", 1)
        await send(server, "PushClose", 3)
        began, let_go = threading.Event(), threading.Event()

        def handler(message: ReceivedMessage) -> None:
            began.set()
            assert let_go.wait(60)

        consumer = push(server, "push-close", "PushClose", handler, workers=1)
        await consumer.start()
        await eventually(began.is_set, "a handler at work")
        closing = asyncio.create_task(consumer.close())
        # It ends its pulls first, which may take a moment; after that no handler starts.
        await eventually(
            lambda: consumer._service is not None and consumer._service._is_closing, "it waits for handlers"
        )
        assert not closing.done()
        let_go.set()
        await closing
        async with Admin(patient(server)) as admin:
            (queue,) = await admin.subscribe_queues("PushClose")
            assert await admin.consumer_offset("push-close", queue) == 1

    run(scenario())
