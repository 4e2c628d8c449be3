import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipc import posix
from ipc.errors import LayoutMismatch, NoSharedMemory, SegmentMissing
from ipc.instance import Instance
from ipc.names import BELL_ROLES, ROLES, instance_hash, segment_name
from ipc.posix import Segment, find_segments
from ipc.publish.log import LogPublisher
from ipc.segment_header import VERSION
from support.descriptors import settled_descriptors

Fork = Callable[[Callable[[], object]], Any]


def names_of(path: Path) -> list[str]:
    return find_segments(segment_name(path, ""))


def test_name_is_the_same_through_every_link_to_the_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    assert instance_hash(tmp_path / "link") == instance_hash(tmp_path / "store")
    assert len(instance_hash(tmp_path)) == 8
    assert instance_hash(tmp_path) != instance_hash(tmp_path / "store")
    assert segment_name(tmp_path, "control") == f"/headrace-{instance_hash(tmp_path)}-control"


def test_instance_has_every_page_and_a_bell_per_sleeping_role(instance: Instance, tmp_path: Path) -> None:
    pages = [name.split("-", 2)[2] for name in names_of(tmp_path)]
    assert pages == sorted(
        [
            "control",
            "queue-table",
            "changed-rows",
            "changed-options",
            "findings",
            "health",
            *(f"counters-{role}" for role in ROLES),
        ]
    )
    assert set(instance.bells) == set(BELL_ROLES)
    assert instance.roles == list(ROLES)


def test_visitor_reads_all_pages(instance: Instance, tmp_path: Path) -> None:
    LogPublisher(instance.control).wrote(123, 456)
    instance.queue_table_writer().add(b"t", 2)
    instance.health.row("flush").state("running")
    instance.counters("broker", ["sends"]).add("sends", 9)
    visitor = Instance.open(tmp_path)
    assert visitor.control.wrote_offset == 123
    assert visitor.queue_table().find(b"t", 2) == 0
    assert visitor.health.read()["flush"].state == "running"
    assert visitor.counters("broker").read() == {"sends": 9}
    assert visitor.read_counters()["broker"] == {"sends": 9}
    assert visitor.bells == {}
    visitor.close()


def test_visitor_cannot_write(instance: Instance, tmp_path: Path) -> None:
    visitor = Instance.open(tmp_path)
    with pytest.raises(TypeError, match="read-only"):
        LogPublisher(visitor.control).wrote(1, 2)
    with pytest.raises(TypeError, match="read-only"):
        visitor.queue_table_writer()
    visitor.close()


@pytest.mark.slow
def test_segments_remain_when_visitors_detach(instance: Instance, tmp_path: Path) -> None:
    before = names_of(tmp_path)
    LogPublisher(instance.control).wrote(77, 0)
    script = "import sys; from ipc.instance import Instance; sys.exit(Instance.open(sys.argv[1]).control.wrote_offset)"
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == 77
    assert names_of(tmp_path) == before


def test_visitor_gets_an_error_when_no_appliance_runs(tmp_path: Path) -> None:
    with pytest.raises(SegmentMissing, match=f"no appliance is running on {tmp_path}"):
        Instance.open(tmp_path)


def test_two_appliances_have_separate_segments(tmp_path: Path) -> None:
    master = Instance.create(tmp_path / "master", queue_table_capacity=4)
    slave = Instance.create(tmp_path / "slave", queue_table_capacity=4)
    LogPublisher(master.control).wrote(1, 1)
    LogPublisher(slave.control).wrote(2, 2)
    assert Instance.open(tmp_path / "master").control.wrote_offset == 1
    master.unlink()
    assert names_of(tmp_path / "master") == []
    assert Instance.open(tmp_path / "slave").control.wrote_offset == 2
    slave.unlink()


def test_segments_of_a_crashed_appliance_are_replaced(tmp_path: Path, fork: Fork) -> None:
    def crash() -> None:
        left = Instance.create(tmp_path, ["supervisor", "filter-9"], queue_table_capacity=4)
        LogPublisher(left.control).wrote(99, 99)

    assert fork(crash).wait() == 0
    assert segment_name(tmp_path, "counters-filter-9") in names_of(tmp_path)
    fresh = Instance.create(tmp_path, queue_table_capacity=4)
    assert fresh.control.wrote_offset == 0
    assert segment_name(tmp_path, "counters-filter-9") not in names_of(tmp_path)
    fresh.unlink()


def test_stale_segments_can_be_removed_by_name(tmp_path: Path) -> None:
    Instance.create(tmp_path, ["supervisor"], queue_table_capacity=4).close()
    removed = Instance.remove_stale(tmp_path)
    assert removed[0] == segment_name(tmp_path, "control")  # first, so that no visitor finds an incomplete instance
    assert len(removed) == 7
    assert names_of(tmp_path) == []
    assert Instance.remove_stale(tmp_path) == []


def test_segment_of_another_version_is_refused(instance: Instance, tmp_path: Path) -> None:
    instance.control.words[VERSION] += 1
    with pytest.raises(LayoutMismatch, match="layout"):
        Instance.open(tmp_path)


def test_failed_allocation_leaves_no_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = posix.create_segment

    def out_of_memory_at_the_last(name: str, size_bytes: int) -> Segment:
        return real(name, 1 << 50 if name.endswith("control") else size_bytes)

    monkeypatch.setattr("ipc.instance.create_segment", out_of_memory_at_the_last)
    with pytest.raises(NoSharedMemory):
        Instance.create(tmp_path, queue_table_capacity=4)
    assert names_of(tmp_path) == []


def test_children_keep_pages_and_bells_after_the_names_are_removed(tmp_path: Path, fork: Fork) -> None:
    made = Instance.create(tmp_path, queue_table_capacity=4)
    made.unlink()
    made.bells["flush"].prepare_sleep()

    def work() -> None:
        LogPublisher(made.control).wrote(5, 6)
        made.bells["flush"].ring()

    assert fork(work).wait() == 0
    assert made.control.wrote_offset == 5
    assert made.bells["flush"].drain()
    made.close()


def test_close_releases_every_descriptor(tmp_path: Path) -> None:
    before = settled_descriptors()
    made = Instance.create(tmp_path, queue_table_capacity=4)
    visitor = Instance.open(tmp_path)
    made.unlink()
    made.close()
    visitor.close()
    assert sorted(os.listdir("/proc/self/fd")) == before
