"""Damage in the middle of a CommitLog file makes only the damaged messages unreadable and is reported."""

from pathlib import Path

import pytest

from headrace.protocol.record import decode_records
from headrace.protocol.response_code import ResponseCode
from support.damage import damage
from support.plain_puller import PlainPuller
from support.plain_sender import PlainSender
from support.servers import wait_until
from support.watched import WatchedAppliance as Appliance

pytestmark = pytest.mark.slow

FILE_SIZE = 16 << 20
COUNT = 400
DEADLINE_S = 30


def read_queue(port: int, topic: str, expression: str, expression_type: str) -> dict[int, int]:
    """What a consumer reads from queue 0: queue offsets and physical offsets."""
    found: dict[int, int] = {}
    offset = 0
    with PlainPuller(port) as puller:
        while True:
            answer = puller.pull(topic, expression, expression_type, offset=offset)
            if answer.code == ResponseCode.PULL_NOT_FOUND:
                return found
            assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY), answer.remark
            following = int(answer.ext["nextBeginOffset"])
            assert following > offset
            offset = following
            found |= {record.queue_offset: record.physical_offset for record in decode_records(answer.body)}


def test_only_damaged_messages_are_unreadable_and_damage_is_reported(tmp_path: Path) -> None:
    settings = {
        "mappedFileSizeCommitLog": str(FILE_SIZE), "maxMessageSize": str(1 << 20), "enablePropertyFilter": "true",
    }  # fmt: skip
    with Appliance(tmp_path / "data", settings=settings) as appliance:
        with PlainSender(appliance.ports[1]) as sender:
            for number in range(COUNT):
                sender.send(number, 1000)
        wait_until(lambda: appliance.status()["lag"]["dispatch"] == 0, DEADLINE_S, "all is dispatched")
        port = appliance.ports[1]
        places = read_queue(port, "PlainTopic", "*", "TAG")
        assert sorted(places) == list(range(COUNT // 4))
        start = places[40] + 500
        damage(appliance.store / "commitlog", FILE_SIZE, start, 4096)
        # The record in which the damage begins has lost the lengths that follow its body.
        hit = [queue_offset for queue_offset, place in places.items() if place + 1000 > start and place < start + 4096]
        assert 1 <= len(hit) <= 2
        left = {queue_offset: place for queue_offset, place in places.items() if queue_offset not in hit}
        assert read_queue(port, "PlainTopic", "*", "TAG") == left
        assert read_queue(port, "PlainTopic", "KEYS IS NOT NULL", "SQL92") == left
        wait_until(
            lambda: appliance.status()["counters"]["broker"]["unreadable_records"] == len(hit), DEADLINE_S, "it counts"
        )
        text = appliance.run("status", "--data", str(appliance.data)).stdout
        assert f"unreadable records skipped: {len(hit)}" in text
        for queue_offset in hit:
            told = f"topic=PlainTopic queue_id=0 queue_offset={queue_offset} physical_offset={places[queue_offset]} "

            def count(told: str = told) -> int:
                log = (appliance.data / "logs" / "headrace.log").read_text().splitlines()
                return sum(told in line and " error " in line for line in log)

            wait_until(lambda: count() > 0, DEADLINE_S, "the line in the log")
            assert count() == 1
