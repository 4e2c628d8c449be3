"""A power cut right after a clean stop loses neither acknowledged messages nor the broker's state.

Only the stop makes data durable here; no periodic sync runs. The processes record what they sync
(`support.synced_files`), and the test drops everything else: either everything except the removal of `abort`, so that
the next start relies on the clean stop, or at random.
"""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.protocol import fastjson
from headrace.protocol.headers import UpdateConsumerOffsetRequestHeader
from headrace.protocol.headers.send import SendMessageRequestHeaderV2
from headrace.protocol.remoting_command import create_request
from store.inspect.dump import dump_records
from support.appliance import Appliance
from support.crash import ONLY_THE_STOP_SYNCS, records, rounds, verify
from support.plain_puller import PlainPuller
from support.plain_sender import PlainSender
from support.servers import wait_until
from support.synced_files import SyncRecord

CUTS = rounds(short=1, full=30)
COUNT = 600
TOPIC = "PlainTopic"
WAITING = {"delayed": "DELAY\x012", "timed": "TIMER_DELAY_SEC\x014"}
"""Messages that wait for some seconds, by their keys."""
WITHOUT_ABORT = "all-but-the-end-of-abort"
PATIENCE_S = 120

pytestmark = pytest.mark.timeout(300 + 20 * CUTS)


@dataclass(frozen=True)
class Stopped:
    """An appliance that stopped cleanly, and the state just before."""

    store: Path
    synced: SyncRecord
    records: list[dict[str, Any]]
    records_synced_before: int


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    home = tmp_path_factory.mktemp("stop")
    synced = SyncRecord(home / "synced")
    with Appliance(home / "data", settings=ONLY_THE_STOP_SYNCS, environment=synced.environment()) as appliance:
        port = appliance.ports[1]
        with PlainSender(port, TOPIC) as sender, PlainPuller(port) as client:
            for number in range(COUNT):
                sender.send(number, 400)
            for key, wait in WAITING.items():
                header = SendMessageRequestHeaderV2(
                    producer_group="plain", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
                    born_timestamp=0, flag=0, properties=f"KEYS\x01{key}\x02{wait}",
                )  # fmt: skip
                assert client.ask(create_request(header.CODE, header.to_ext(), key.encode())).code == 0
            offset = UpdateConsumerOffsetRequestHeader("group", TOPIC, 1, 42)
            assert client.ask(create_request(offset.CODE, offset.to_ext())).code == 0
        synced.leave(appliance.store, home / "before", is_lost=lambda: True)
    log = [line for line in dump_records(appliance.store) if line["kind"] == "record"]
    before = sum(line["kind"] == "record" for line in dump_records(home / "before"))
    yield Stopped(appliance.store, synced, log, before)
    shutil.rmtree(home / "data", ignore_errors=True)


def test_simulated_power_cut_drops_unsynced_data(stopped: Stopped) -> None:
    assert not (stopped.store / "abort").exists()
    assert len(stopped.records) >= COUNT + len(WAITING)
    assert stopped.records_synced_before < COUNT


@pytest.mark.parametrize("cut", [WITHOUT_ABORT, *map(str, range(CUTS))])
def test_power_cut_after_clean_stop_loses_nothing(
    cut: str, stopped: Stopped, tmp_path: Path, chance: random.Random
) -> None:
    data = tmp_path / "data"
    if cut == WITHOUT_ABORT:
        stopped.synced.leave(stopped.store, data / "store", is_lost=lambda: True)
        (data / "store" / "abort").unlink()
    else:
        stopped.synced.leave(stopped.store, data / "store", is_lost=lambda: chance.random() < 0.5)
    assert [line for line in dump_records(data / "store") if line["kind"] == "record"] == stopped.records
    with Appliance(data, settings=ONLY_THE_STOP_SYNCS) as appliance:
        wait_until(
            lambda: {record["properties"]["KEYS"] for record in records(appliance.store, TOPIC)} >= WAITING.keys(),
            PATIENCE_S,
            "what had to wait",
        )
        delivered = [record["properties"]["KEYS"] for record in records(appliance.store, TOPIC)]
    # A message that was acknowledged late was sent again.
    assert set(delivered) == {*map(str, range(COUNT)), *WAITING}
    assert all(delivered.count(key) == 1 for key in WAITING)
    config = appliance.store / "config"
    assert TOPIC in fastjson.loads((config / "topics.json").read_bytes())["topicConfigTable"]
    offsets = fastjson.loads((config / "consumerOffset.json").read_bytes())
    assert offsets["offsetTable"][f"{TOPIC}@group"] == {1: 42}
    if cut == WITHOUT_ABORT:
        # The stop was recognised as clean, and the log was not read again.
        assert " records_read=0 " in (data / "logs" / "headrace.log").read_text()
    verify(appliance.store)
