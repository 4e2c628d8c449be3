"""The Python producer at both brokers: messages are stored unchanged at the position in the result."""

import asyncio

import pytest

from headrace import (
    Admin,
    Compression,
    Message,
    MessageExt,
    MessageInvalid,
    ReplyTimeout,
    RouteNotFound,
    SendFailed,
    SendStatus,
    reply_to,
    split_batches,
)
from headrace.client.sending.queue_choice import by_random, java_hash
from headrace.client.tracing import trace
from headrace.client.tracing.trace_records import FIELD_SEPARATOR, RECORD_END
from headrace.model import sys_flag as sys_flags
from support.not_served import report, serves
from support.sdk import PATIENCE_S, answered, await_registered, dump, eventually, patient, producing, run
from support.servers import Server


@pytest.fixture(scope="module", autouse=True)
def registered(server: Server) -> None:
    await_registered(server.name_server)


def test_report_features_not_served_by_the_appliance(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{report()}")  # noqa: T201 - to be seen in every run


def test_message_is_stored_unchanged_where_the_result_says(server: Server) -> None:
    async def main() -> None:
        message = Message(
            "SdkOne",
            "Größe: 5 µm",
            tags="TagÄ",
            keys=["order-1", "größe"],
            flag=7,
            properties={"unit": "µm", "blank in it": "a b"},
        )
        before = dict(message.properties)
        async with producing(server, "sdk-one") as producer, Admin(patient(server)) as admin:
            result = await producer.send(message)
            assert result.ok
            assert result.status is SendStatus.SEND_OK
            assert message.properties == before, "the caller's message was changed"
            (stored,) = await dump(admin, "SdkOne", 1)
            assert (stored.queue_id, stored.queue_offset) == (result.queue.queue_id, result.queue_offset)
            assert stored.message_id == result.message_id
            assert stored.offset_message_id == result.offset_message_id
            assert stored.body.decode() == "Größe: 5 µm"
            assert (stored.tags, stored.keys, stored.flag) == ("TagÄ", ["order-1", "größe"], 7)
            assert stored.properties["unit"] == "µm"
            assert stored.properties["blank in it"] == "a b"
            assert (await admin.view_message(result.offset_message_id)).body == stored.body
            # The index is built after the queue.
            again = await answered(lambda: admin.view_message(result.message_id, "SdkOne"), "the message by its id")
            assert again.body == stored.body

    run(main())


def test_first_message_creates_the_topic_and_sends_rotate_over_queues(server: Server) -> None:
    async def main() -> None:
        async with producing(server, "sdk-turns") as producer:
            results = [await producer.send(Message("SdkTurns", b"x")) for _ in range(8)]
            queues = [result.queue.queue_id for result in results]
            assert sorted(queues) == [0, 0, 1, 1, 2, 2, 3, 3]
            assert queues[:4] == queues[4:]
            assert len(await answered(lambda: producer.queues("SdkTurns"), "name servers know the topic")) == 4

    run(main())


def test_concurrent_sends_are_each_stored_once(server: Server) -> None:
    async def main() -> None:
        async with producing(server, "sdk-many") as producer, Admin(patient(server)) as admin:
            results = await asyncio.gather(*(producer.send(Message("SdkMany", str(number))) for number in range(500)))
            stored = await dump(admin, "SdkMany", 500)
            assert sorted(int(message.body) for message in stored) == list(range(500))
            places = {(one.queue.queue_id, one.queue_offset): one.message_id for one in results}
            assert places == {(one.queue_id, one.queue_offset): one.message_id for one in stored}

    run(main())


@pytest.mark.parametrize("compression", Compression)
def test_large_bodies_are_sent_compressed_and_arrive_unchanged(server: Server, compression: Compression) -> None:
    topic = f"SdkCompressed{compression.name}"
    body = b"0123456789" * 20_000

    async def main() -> None:
        async with (
            producing(server, "sdk-compress", compression=compression) as producer,
            Admin(patient(server)) as admin,
        ):
            result = await producer.send(Message(topic, body))
            (stored,) = await dump(admin, topic, 1)
            assert stored.body == body
            assert result.message_id == stored.message_id
            assert stored.sys_flag & sys_flags.COMPRESSION_MASK == compression.value
            assert stored.size_bytes < 3000

    run(main())


def test_sharding_key_selects_the_same_queue_as_the_java_client(server: Server) -> None:
    async def main() -> None:
        async with producing(server, "sdk-keys") as producer:
            await producer.send(Message("SdkKeys", b"made"))
            for key in ("order-100", "", "größe", 7, -7, 5_000_000_000):
                results = {(await producer.send(Message("SdkKeys", b"x"), sharding_key=key)).queue for _ in range(3)}
                (queue,) = results
                assert queue.queue_id == abs(java_hash(key)) % 4
            chosen = await producer.send(
                Message("SdkKeys", b"x"), selector=lambda queues, _message, key: queues[key], key=3
            )
            assert chosen.queue.queue_id == 3
            assert (await producer.send(Message("SdkKeys", b"x"), selector=by_random)).ok
            given = await producer.send(Message("SdkKeys", b"x"), queue=chosen.queue)
            assert given.queue == chosen.queue
            with pytest.raises(MessageInvalid):
                await producer.send(Message("Other", b"x"), queue=chosen.queue)

    run(main())


def test_batch_is_stored_in_one_queue_in_order(server: Server) -> None:
    async def main() -> None:
        async with producing(server, "sdk-batch") as producer, Admin(patient(server)) as admin:
            messages = [Message("SdkBatch", str(number), tags=f"t{number}", keys=f"k{number}") for number in range(50)]
            result = await producer.send_batch(messages)
            stored = await dump(admin, "SdkBatch", 50)
            assert [message.body for message in stored] == [message.body for message in messages]
            assert [message.tags for message in stored] == [message.tags for message in messages]
            assert {message.queue_id for message in stored} == {result.queue.queue_id}
            assert [message.queue_offset for message in stored] == list(
                range(result.queue_offset, result.queue_offset + 50)
            )
            assert result.message_id.split(",") == [message.message_id for message in stored]
            assert result.offset_message_id.split(",") == [message.offset_message_id for message in stored]

    run(main())


def test_messages_are_split_into_batches_that_fit(server: Server) -> None:
    async def main() -> None:
        messages = [Message("SdkSplit", bytes([number % 256]) * 10_000) for number in range(300)]
        assert len(list(split_batches(messages, 1_000_000))) > 2
        async with producing(server, "sdk-split") as producer, Admin(patient(server)) as admin:
            with pytest.raises(MessageInvalid, match="split_batches"):
                await producer.send_batch(messages * 2)
            results = await producer.send_batches(messages)
            assert sum(result.message_id.count(",") + 1 for result in results) == 300
            stored = await dump(admin, "SdkSplit", 300)
            assert sorted(message.body[0] for message in stored) == sorted(message.body[0] for message in messages)

    run(main())


def test_messages_sent_close_together_are_batched(server: Server) -> None:
    async def main() -> None:
        async with (
            producing(server, "sdk-linger", linger=0.01) as producer,
            Admin(patient(server)) as admin,
        ):
            bad = producer.send(Message("SdkLinger", b"x", properties={"a": "\x01"}))
            sends = [producer.send(Message("SdkLinger", str(number))) for number in range(200)]
            results = await asyncio.gather(bad, *sends, return_exceptions=True)
            assert isinstance(results.pop(0), MessageInvalid), "the invalid message was not refused"
            stored = {message.message_id: message for message in await dump(admin, "SdkLinger", 200)}
            for number, result in enumerate(results):
                assert not isinstance(result, BaseException)
                message = stored[result.message_id]
                assert message.body == str(number).encode()
                assert (message.queue_id, message.queue_offset) == (result.queue.queue_id, result.queue_offset)
                assert message.offset_message_id == result.offset_message_id
            assert len({message.queue_id for message in stored.values()}) == 1, (
                "the batch was spread over several queues"
            )

    run(main())


def test_one_way_messages_are_stored(server: Server) -> None:
    async def main() -> None:
        async with producing(server, "sdk-oneway") as producer, Admin(patient(server)) as admin:
            for number in range(100):
                await producer.send_oneway(Message("SdkOneway", str(number)))
            stored = await dump(admin, "SdkOneway", 100)
            assert sorted(int(message.body) for message in stored) == list(range(100))

    run(main())


def test_close_waits_for_sends_in_flight(server: Server) -> None:
    async def main() -> None:
        producer = await producing(server, "sdk-close", linger=0.5).start()
        sends = [asyncio.create_task(producer.send(Message("SdkClose", b"x"))) for _ in range(20)]
        await asyncio.sleep(0)
        await producer.close()
        assert all(task.done() for task in sends)
        assert all(task.result().ok for task in sends)
        await producer.close()

    run(main())


def test_invalid_messages_are_refused_without_a_request(server: Server) -> None:
    async def main() -> None:
        async with producing(server, "sdk-refuse", max_message_size=100_000) as producer:
            for message in (
                Message("no blanks!", b"x"),
                Message("", b"x"),
                Message("SdkRefuse", b""),
                Message("SdkRefuse", b"x" * 100_001),
                Message("SCHEDULE_TOPIC_XXXX", b"x"),
                Message("t" * 128, b"x"),
                Message("SdkRefuse", b"x", properties={"name": "\x02"}),
                Message("SdkRefuse", b"x", properties={"name": ""}),
                Message("SdkRefuse", b"x", properties={"name": "x" * 32_768}),
            ):
                with pytest.raises(MessageInvalid):
                    await producer.send(message)
        with pytest.raises(RouteNotFound):
            async with producing(server, "sdk-refuse", create_topic_template="NoSuchTemplate") as producer:
                await producer.send(Message("SdkNobodyMadeIt", b"x"))

    run(main())


def test_namespace_applies_to_topics_and_groups_and_is_hidden(server: Server) -> None:
    async def main() -> None:
        config = patient(server, namespace="space")
        async with (
            producing(config, "sdk-space") as producer,
            Admin(patient(server)) as outside,
            Admin(config) as inside,
        ):
            assert producer.group == "space%sdk-space"
            result = await producer.send(Message("SdkSpace", b"x", keys="in-space"))
            assert result.queue.topic == "SdkSpace"
            assert (await producer.send(Message("SdkSpace", b"x"), queue=result.queue)).queue == result.queue
            stored = await dump(outside, "space%SdkSpace", 2)
            assert stored[0].properties["INSTANCE_ID"] == "space"

            async def found() -> list[MessageExt]:
                return await inside.query_messages("SdkSpace", "in-space")

            (message,) = await eventually(found, "the message by its key")
            assert message.topic == "SdkSpace"
            assert "SdkSpace" in await inside.topics()

    run(main())


def test_binary_headers_carry_the_same_fields(server: Server) -> None:
    async def main() -> None:
        config = patient(server, binary_headers=True)
        async with producing(config, "sdk-binary") as producer, Admin(config) as admin:
            result = await producer.send(Message("SdkBinary", b"x", tags="T"))
            (stored,) = await dump(admin, "SdkBinary", 1)
            assert stored.message_id == result.message_id

    run(main())


def test_trace_has_a_record_of_each_sent_message(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # A trace record that is not stored in time is dropped by design; not tested here.
    monkeypatch.setattr(trace, "SEND_TIMEOUT_S", PATIENCE_S)

    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "sdk-trace", trace=True) as producer:
            result = await producer.send(Message("SdkTraced", b"x" * 10, tags="T", keys="traced-key"))

            async def record() -> list[str]:
                texts = [message.body.decode() for message in await dump(admin, "RMQ_SYS_TRACE_TOPIC", 1)]
                records = [one for text in texts for one in text.split(RECORD_END) if result.message_id in one]
                return records[0].split(FIELD_SEPARATOR) if records else []

            fields = await eventually(record, "the record of the message")
            assert fields[0] == "Pub"
            assert fields[3:8] == ["sdk-trace", "SdkTraced", result.message_id, "T", "traced-key"]
            assert fields[8] == server.broker
            assert fields[9] == "10"
            assert fields[11:] == ["0", result.offset_message_id, "true"]

    run(main())


@serves("delay")
def test_message_with_a_delay_level_is_delivered_later(server: Server) -> None:
    async def main() -> None:
        async with producing(server, "sdk-delay") as producer, Admin(patient(server)) as admin:
            await admin.create_topic("SdkDelay", 1)
            loop = asyncio.get_running_loop()
            start = loop.time()
            await producer.send(Message("SdkDelay", b"later", delay_level=1))
            early = await dump(admin, "SdkDelay", 0)
            assert early == [] or loop.time() - start >= 0.9
            (stored,) = await dump(admin, "SdkDelay", 1)
            assert stored.body == b"later"
            assert loop.time() - start >= 0.9

    run(main())


def test_vip_channel_uses_the_port_two_below(server: Server) -> None:
    async def main() -> None:
        config = patient(server, vip_channel=True)
        async with producing(config, "sdk-vip") as producer, Admin(config) as admin:
            assert producer._instance.vip("10.0.0.1:10911") == "10.0.0.1:10909"
            result = await producer.send(Message("SdkVip", b"x"))
            (stored,) = await dump(admin, "SdkVip", 1)
            assert stored.message_id == result.message_id
            assert await admin.max_offset(result.queue) == 1

    run(main())


@serves("reply")
def test_request_is_answered_by_its_consumer(server: Server) -> None:
    async def main() -> None:
        async with (
            producing(server, "asker") as asker,
            producing(server, "answerer", compress_over=10) as answerer,
            Admin(patient(server)) as admin,
        ):
            await admin.create_topic("Ask", 1)

            async def answer() -> None:
                (request,) = await dump(admin, "Ask", 1)
                await answerer.send(reply_to(request, request.body * 100))

            answering = asyncio.create_task(answer())
            reply = await asker.request(Message("Ask", b"ping"), 60)
            await answering
            assert reply.body == b"ping" * 100
            assert reply.topic == "DefaultCluster_REPLY_TOPIC"
            for budget_s in (2, 10, 60):
                try:
                    with pytest.raises(ReplyTimeout):
                        await asker.request(Message("Ask", b"ping"), budget_s)
                    break
                except SendFailed:  # the broker accepted the message too slowly, which used up all of the time
                    pass
            else:
                pytest.fail("the broker never accepted the message")
            stored = await dump(admin, "Ask", 2)
            with pytest.raises(MessageInvalid):
                reply_to(MessageExt("Ask"), b"x")
            # Too late: the broker still delivers it, but the requester has stopped waiting.
            assert (await answerer.send(reply_to(stored[1], b"late"))).ok

    run(main())
