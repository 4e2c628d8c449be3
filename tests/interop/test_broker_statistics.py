"""Broker statistics as tools query them: the same work gives the same figures at both brokers."""

import pytest

from headrace import Admin, BrokerError, Message, MessageQueue, Producer
from headrace.protocol.bodies import BrokerStatsData, BrokerStatsItem
from headrace.protocol.headers import (
    ConsumerSendMsgBackRequestHeader,
    PullMessageRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from headrace.protocol.record import decode_records
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from support.java import Java
from support.sdk import dump, eventually, patient, producing, run
from support.servers import Server, wait_until

TOPIC, GROUP = "Counted", "counted-group"


async def ask(admin: Admin, server: Server, code: RequestCode, ext: dict[str, str]) -> RemotingCommand:
    answer = await admin._instance.request(server.broker, create_request(code, ext), 60_000)
    assert answer.code == 0, answer.remark
    return answer


async def work(admin: Admin, server: Server, producer: Producer) -> tuple[int, int]:
    """Sends seven messages, pulls, commits, sends one back, delays one; returns bytes stored and pulled."""
    await admin.create_topic(TOPIC, 1)
    (name,) = await admin.masters()
    queue = MessageQueue(TOPIC, name, 0)
    for number in range(3):
        await producer.send(Message(TOPIC, f"single {number}".encode()), queue=queue)
    await producer.send_batch([Message(TOPIC, f"batched {number}".encode()) for number in range(4)], queue=queue)
    await dump(admin, TOPIC, 7)
    pulled = await ask(admin, server, RequestCode.PULL_MESSAGE, PullMessageRequestHeader(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=4, commit_offset=0,
        suspend_timeout_millis=0, subscription="*", sub_version=0, expression_type="TAG",
    ).to_ext())  # fmt: skip
    messages = decode_records(pulled.body)
    assert len(messages) == 7
    await ask(
        admin,
        server,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        UpdateConsumerOffsetRequestHeader(GROUP, TOPIC, 0, 7).to_ext(),
    )
    back = ConsumerSendMsgBackRequestHeader(messages[0].physical_offset, GROUP, 1, origin_topic=TOPIC)
    await ask(admin, server, RequestCode.CONSUMER_SEND_MSG_BACK, back.to_ext())
    await producer.send(Message(TOPIC, b"delayed", delay_level=1))
    delivered = (await dump(admin, TOPIC, 8))[-1]
    return sum(message.size_bytes for message in messages) + delivered.size_bytes, len(pulled.body)


def test_statistics_equal_apaches_for_the_same_work(server: Server, java: Java) -> None:
    async def main() -> None:
        async with Admin(patient(server)) as admin, producing(server, "counted") as producer:
            stored, pulled = await work(admin, server, producer)

            async def stats(name: str, key: str) -> BrokerStatsData:
                return await admin.broker_stats(server.broker, name, key)

            expected = {
                ("TOPIC_PUT_NUMS", TOPIC): (8, 8 / 5),
                ("TOPIC_PUT_SIZE", TOPIC): (stored, stored / 5),
                ("GROUP_GET_NUMS", f"{TOPIC}@{GROUP}"): (7, 7.0),
                ("GROUP_GET_SIZE", f"{TOPIC}@{GROUP}"): (pulled, float(pulled)),
                ("SNDBCK_PUT_NUMS", f"{TOPIC}@{GROUP}"): (1, 1.0),
            }

            async def last_minute() -> dict[tuple[str, str], BrokerStatsItem]:
                return {key: (await stats(*key)).stats_minute for key in expected}

            async def looked_at() -> bool:
                return {key: one.sum for key, one in (await last_minute()).items()} == {
                    key: sums[0] for key, sums in expected.items()
                }

            await eventually(looked_at, "the broker has sampled all of the work", 50)
            told = await last_minute()
            assert {key: (one.sum, one.avgpt) for key, one in told.items()} == expected
            assert all(0 < one.tps <= one.sum / 10 for one in told.values())
            # These also count the work of other tests, and each is sampled separately.
            levels = "SCHEDULE_TOPIC_XXXX"
            for name, key in (
                ("BROKER_PUT_NUMS", "DefaultCluster"),
                ("BROKER_GET_NUMS", "DefaultCluster"),
                ("TOPIC_PUT_NUMS", levels),
                ("GROUP_GET_NUMS", f"{levels}@SCHEDULE_CONSUMER"),
                ("QUEUE_PUT_NUMS", f"{levels}@0"),
                ("QUEUE_GET_NUMS", f"{levels}@0@SCHEDULE_CONSUMER"),
            ):

                async def is_counted(name: str = name, key: str = key) -> bool:
                    return (await stats(name, key)).stats_minute.sum >= 1

                await eventually(is_counted, f"{name} {key}", 30)
            assert (await stats("GROUP_GET_LATENCY", f"0@{TOPIC}@{GROUP}")).stats_minute.sum >= 0
            for name, key in (
                ("TOPIC_PUT_NUMS", "NoSuchTopic"),
                ("NO_SUCH_SET", TOPIC),
                ("GROUP_GET_LATENCY", f"{TOPIC}@{GROUP}"),
            ):
                with pytest.raises(BrokerError, match=f"The stats <{name}> <{key}> not exist") as refused:
                    await stats(name, key)
                assert refused.value.code == 1
            progress = await admin.consume_stats(GROUP, TOPIC)
            assert 0 < progress.consume_tps <= 0.7

    run(main(), 120)
    said: list[str] = []

    def says(start: str, *arguments: str) -> bool:
        """Whether the command line received an answer: it waits three seconds for each and goes on without."""
        lines = java.call("mqadmin", arguments=[*arguments, "-n", server.name_server]).splitlines()
        said[:] = [line for line in lines if line.startswith(start)]
        return bool(said)

    wait_until(lambda: says(f"{TOPIC} ", "statsAll", "-t", TOPIC), 30, "a row of statsAll")
    (row,) = [line.split() for line in said if GROUP in line]
    assert row[:3] == [TOPIC, GROUP, "1"]
    assert row[-2:] == ["8", "7"]
    assert all(0 < float(tps) < 1 for tps in row[3:5])
    wait_until(lambda: says("Consume TPS:", "consumerProgress", "-g", GROUP), 30, "the progress of the group")
    assert 0 < float(said[0].rpartition(":")[2]) < 1
