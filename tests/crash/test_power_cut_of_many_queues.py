"""A power cut right after the clean stop of a broker with thousands of queues, which are synced with their whole file system.

The store is on a disk of its own, in a file, which is copied while it is mounted: what was not written to it is not in the copy.
"""

from pathlib import Path

from headrace.protocol.headers.send import SendMessageRequestHeaderV2
from headrace.protocol.remoting_command import create_request
from headrace.sync import Admin
from store.housekeeping.index_sync import _MANY_QUEUES
from store.mapped_file import path_of
from store.paths import StorePaths
from support.appliance import Appliance
from support.crash import ONLY_THE_STOP_SYNCS, verify
from support.plain_puller import PlainPuller
from support.volume import Volume

QUEUES = 100
TOPICS = [f"Many{number}" for number in range(_MANY_QUEUES // QUEUES + 1)]
VOLUME_BYTES = 400 << 20


def test_power_cut_after_a_clean_stop_leaves_all_queues(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    with Volume(tmp_path, VOLUME_BYTES) as disk:
        with Appliance(disk.path / "data", settings=ONLY_THE_STOP_SYNCS) as appliance:
            with Admin(appliance.name_server) as admin:
                for topic in TOPICS:
                    admin.create_topic(topic, queues=QUEUES)
            with PlainPuller(appliance.ports[1]) as client:
                for topic in TOPICS:
                    for queue_id in range(QUEUES):
                        send(client, topic, queue_id)
        disk.leave(left)
    with Volume(left, VOLUME_BYTES) as disk:
        store = StorePaths(disk.path / "data" / "store")
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                assert any(path_of(store.queue(topic, queue_id), 0).read_bytes()[:20]), f"{topic} {queue_id}"
        verify(store.root)


def send(client: PlainPuller, topic: str, queue_id: int) -> None:
    header = SendMessageRequestHeaderV2(
        producer_group="many", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=queue_id, sys_flag=0,
        born_timestamp=0, flag=0, properties="",
    )  # fmt: skip
    assert client.ask(create_request(header.CODE, header.to_ext(), b"body")).code == 0
