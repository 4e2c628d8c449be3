"""The lite pull consumer and the pull consumer at Apache's broker and at ours."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from headrace import (
    ConfigError,
    LitePullConsumer,
    MessageQueue,
    PullConsumer,
    PullScheduler,
    PullStatus,
    StartFrom,
    StateError,
)
from headrace.client.admin import Admin
from headrace.client.consuming.received_message import ReceivedMessage
from support.consuming import await_consumed, config_for, create_topic, eventually, push, send
from support.sdk import patient, run
from support.servers import Server


def lite(server: Server, group: str, **options: Any) -> LitePullConsumer:
    return LitePullConsumer(group, config_for(server), **{"start_from": StartFrom.FIRST, **options})


async def poll_until(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    """Polls until there are this many messages."""
    found: list[ReceivedMessage] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await consumer.poll(1.0)
    return found


def test_poll_returns_every_message_once_in_queue_order(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "LitePoll")
        bodies = await send(server, "LitePoll", 200)
        consumer = lite(server, "lite-poll", auto_commit=False)
        consumer.subscribe("LitePoll")
        async with consumer:
            assert consumer.client_id.endswith("@STREAM")
            found = await poll_until(consumer, 200)
            assert await consumer.poll(0) == []
            await consumer.commit()
            queues = consumer.assignment()
            assert [await consumer.committed(queue) for queue in queues] == [50] * 4
        assert sorted(message.body for message in found) == sorted(bodies)
        for queue in queues:
            assert [one.queue_offset for one in found if one.queue == queue] == list(range(50))
        async with Admin(patient(server)) as admin:
            assert [await admin.consumer_offset("lite-poll", queue) for queue in queues] == [50] * 4

    run(scenario())


def test_iteration_commits_messages_already_passed(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "LiteIterate", 1)
        bodies = await send(server, "LiteIterate", 20)
        consumer = lite(server, "lite-iterate")
        consumer.subscribe("LiteIterate")
        taken: list[bytes] = []
        async with consumer:
            async for message in consumer:
                taken.append(message.body)
                if len(taken) == 12:
                    break
        again = lite(server, "lite-iterate")
        again.subscribe("LiteIterate")
        async with again:
            rest = await poll_until(again, 9)
        assert taken == bodies[:12]
        assert [message.body for message in rest] == bodies[11:]  # the twelfth was handed out, but not passed

    run(scenario())


def test_getmany_returns_available_messages_up_to_the_limit(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "LiteMany", 2)
        bodies = await send(server, "LiteMany", 100)
        consumer = lite(server, "lite-many")
        consumer.subscribe("LiteMany")
        found: list[bytes] = []
        async with consumer:
            while len(found) < 100:
                some = await consumer.getmany(7, 60)
                assert 0 < len(some) <= 7
                found += [message.body for message in some]
        assert sorted(found) == sorted(bodies)

    run(scenario())


def test_queues_can_be_assigned_and_sought(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "LiteAssign", 2)
        await send(server, "LiteAssign", 40)
        consumer = lite(server, "lite-assign", auto_commit=False)
        async with consumer:
            queues = await consumer.queues("LiteAssign")
            assert len(queues) == 2
            consumer.assign(queues[:1])
            found = await poll_until(consumer, 20)
            assert {message.queue for message in found} == {queues[0]}
            await consumer.seek(queues[0], 15)
            assert [message.queue_offset for message in await poll_until(consumer, 5)] == [15, 16, 17, 18, 19]
            await consumer.seek_to_beginning(queues[0])
            assert (await poll_until(consumer, 20))[0].queue_offset == 0
            await consumer.seek_to_end(queues[0])
            assert await consumer.poll(0.2) == []
            with pytest.raises(ConfigError, match="is out of range"):
                await consumer.seek(queues[0], 99)
            with pytest.raises(ConfigError, match="not assigned"):
                await consumer.seek(queues[1], 3)
            consumer.assign(queues)
            assert {message.queue for message in await poll_until(consumer, 20)} == {queues[1]}
            with pytest.raises(StateError, match=r"assign\(\) has already been called"):
                consumer.subscribe("LiteAssign")
            first = await consumer.offset_for_time(queues[0], 0)
            assert first == 0

    run(scenario())


def test_paused_queue_is_not_fetched(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "LitePause", 1)
        consumer = lite(server, "lite-pause", pull_batch_size=1)
        consumer.subscribe("LitePause")
        async with consumer:
            await send(server, "LitePause", 10)
            await poll_until(consumer, 10)
            (queue,) = consumer.assignment()
            consumer.pause([queue])
            # A fetch in flight at the pause may still return one.
            more = await send(server, "LitePause", 10, first=20)
            early = await consumer.poll(0.3) + await consumer.poll(0.2)
            assert len(early) <= 1
            consumer.resume([queue])
            found = [*early, *await poll_until(consumer, 10 - len(early))]
            assert [message.body for message in found] == more

    run(scenario())


def test_members_share_queues_and_are_notified(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "LiteShare", 4)
        events: list[tuple[str, int]] = []

        async def revoked(queues: list[MessageQueue]) -> None:
            events.append(("revoked", len(queues)))

        one = lite(
            server,
            "lite-share",
            on_assigned=lambda queues: events.append(("assigned", len(queues))),
            on_revoked=revoked,
        )
        two = lite(server, "lite-share")
        for consumer in (one, two):
            consumer.subscribe("LiteShare")
        async with one:
            await eventually(lambda: len(one.assignment()) == 4, "all queues")
            bodies = await send(server, "LiteShare", 80)
            found = await poll_until(one, 80)
            await one.commit()
            async with two:
                await eventually(lambda: len(one.assignment()) == len(two.assignment()) == 2, "two each")
                await eventually(lambda: events == [("assigned", 4), ("revoked", 2)], "it was told")
                more = await send(server, "LiteShare", 80, first=80)
                found += await poll_until(one, 40)
                found += await poll_until(two, 40)
                await one.commit()
                await two.commit()
            await eventually(lambda: len(one.assignment()) == 4, "all queues again")
        assert Counter(message.body for message in found) == Counter([*bodies, *more])
        await await_consumed(server, "lite-share", "LiteShare")

    run(scenario())


def test_cancelled_poll_loses_no_message(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "LiteCancel", 1)
        consumer = lite(server, "lite-cancel")
        consumer.subscribe("LiteCancel")
        async with consumer:
            await eventually(lambda: len(consumer.assignment()) == 1, "the queue")
            polling = [asyncio.create_task(consumer.poll(60)) for _ in range(3)]
            await asyncio.sleep(0)
            sending = asyncio.create_task(send(server, "LiteCancel", 50))
            for task in polling[:2]:
                await asyncio.sleep(0.01)
                task.cancel()
            results = await asyncio.gather(*polling, return_exceptions=True)
            found = [message for result in results if isinstance(result, list) for message in result]
            bodies = await sending
            found += await poll_until(consumer, 50 - len(found))
        assert sorted(message.body for message in found) == sorted(bodies)

    run(scenario())


def test_pull_consumer_pulls_single_queues(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PullHand", 1)
        bodies = await send(server, "PullHand", 20, tags="a")
        async with PullConsumer("pull-hand", config_for(server)) as consumer:
            (queue,) = await consumer.queues("PullHand")
            assert await consumer.min_offset(queue) == 0
            assert await consumer.max_offset(queue) == 20
            result = await consumer.pull(queue, "*", 5, 10)
            assert result.status is PullStatus.FOUND
            assert (result.next_offset, result.min_offset, result.max_offset) == (15, 0, 20)
            assert [message.body for message in result.messages] == bodies[5:15]
            assert (await consumer.pull(queue, "b", 0, 32)).status is PullStatus.NO_MATCHED_MESSAGE
            assert (await consumer.pull(queue, "*", 20, 32)).status is PullStatus.NO_NEW_MESSAGE
            moved = await consumer.pull(queue, "*", 50, 32)
            assert (moved.status, moved.next_offset) == (PullStatus.OFFSET_ILLEGAL, 20)

            waiting = asyncio.create_task(consumer.pull(queue, "*", 20, 32, block=True))
            (body,) = await send(server, "PullHand", 1, first=20)
            assert [message.body for message in (await waiting).messages] == [body]

            assert await consumer.fetch_offset(queue) in (0, None)
            consumer.update_offset(queue, 7)
            assert await consumer.fetch_offset(queue) == 7
            await consumer.persist(queue)
            assert await consumer.fetch_offset(queue, from_store=True) == 7
            with pytest.raises(ConfigError):
                await consumer.pull(queue, "*", -1, 32)

    run(scenario())


def test_pulled_message_can_be_sent_back(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PullBack", 1)
        await send(server, "PullBack", 1)
        seen: list[ReceivedMessage] = []
        consumer = PullConsumer("pull-back", config_for(server))
        consumer.register_topic("PullBack")
        async with consumer:
            await eventually(lambda: len(consumer.in_balance("PullBack")) == 1, "our share")
            (queue,) = consumer.in_balance("PullBack")
            result = await consumer.pull(queue, "*", 0, 1)
            await consumer.send_back(result.messages[0], 1)
        async with push(server, "pull-back", "PullBack", seen.append):
            await eventually(lambda: any(message.reconsume_times == 1 for message in seen), "it comes again")
        again = next(message for message in seen if message.reconsume_times)
        assert (again.topic, again.body) == ("PullBack", b"0")

    run(scenario())


def test_pull_scheduler_pulls_from_each_assigned_queue(server: Server) -> None:
    async def scenario() -> None:
        await create_topic(server, "PullSchedule", 4)
        bodies = await send(server, "PullSchedule", 80)
        found: list[tuple[int, bytes]] = []

        def scheduler() -> PullScheduler:
            made = PullScheduler("pull-schedule", config_for(server))

            @made.task("PullSchedule")
            async def look(queue: MessageQueue, scheduler: PullScheduler) -> float | None:
                if not found:
                    found.append((-1, b""))
                    raise ValueError("the first call fails and is retried")
                result = await scheduler.pull(queue, "*", await scheduler.fetch_offset(queue) or 0, 8)
                found.extend((queue.queue_id, message.body) for message in result.messages)
                scheduler.update_offset(queue, result.next_offset)
                return 0.0 if result.messages else None

            return made

        async with scheduler() as one:
            await eventually(lambda: len(found) == 81, "all of them")
            # The first retry comes ten seconds after the start.
            await one.persist_offsets()
            await await_consumed(server, "pull-schedule", "PullSchedule")
            async with scheduler() as two:
                await eventually(
                    lambda: len(one.in_balance("PullSchedule")) == len(two.in_balance("PullSchedule")) == 2, "two each"
                )
                more = await send(server, "PullSchedule", 80, first=80)
                await eventually(lambda: len(found) >= 161, "all of them")
        assert sorted(body for _, body in found[1:]) == sorted([*bodies, *more])

    run(scenario())
