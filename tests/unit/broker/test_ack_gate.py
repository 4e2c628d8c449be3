"""Answers that wait for disk and slaves."""

import pytest

from broker.appending.ack_gate import AckGate
from store.config import ASYNC_FLUSH, ASYNC_MASTER, SYNC_FLUSH, SYNC_MASTER, StoreConfig
from store.status import PutMessageStatus
from support.safe_offsets import SafeOffsets


class Safe:
    def __init__(self, **offsets: int) -> None:
        self.offsets = SafeOffsets(**offsets)
        self.now = 100.0
        self.told: list[tuple[str, PutMessageStatus]] = []

    def gate(self, sync_flush: bool = True, sync_slave: bool = False) -> AckGate:
        config = StoreConfig(
            flush_disk_type=SYNC_FLUSH if sync_flush else ASYNC_FLUSH,
            broker_role=SYNC_MASTER if sync_slave else ASYNC_MASTER,
            sync_flush_timeout=5000,
            slave_timeout=3000,
            ha_slave_fallbehind_max=1000,
        )
        return AckGate(self.offsets.control, lambda: self.now, config)

    def teller(self, name: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
        return lambda status: self.told.append((name, status))


def test_open_gate_acknowledges_at_once() -> None:
    safe = Safe()
    gate = safe.gate(sync_flush=False)
    assert gate.is_open
    gate.wait(10, safe.teller("a"))
    assert safe.told == [("a", PutMessageStatus.PUT_OK)]


def test_sync_releases_all_covered_sends_in_order() -> None:
    safe = Safe()
    gate = safe.gate()
    for name, end in (("a", 10), ("b", 20), ("c", 30)):
        gate.wait(end, safe.teller(name))
    assert safe.told == []
    assert gate.has_waiting
    safe.offsets.flushed_offset = 20
    gate.release()
    assert safe.told == [("a", PutMessageStatus.PUT_OK), ("b", PutMessageStatus.PUT_OK)]
    safe.offsets.flushed_offset = 30
    gate.release()
    assert [name for name, _ in safe.told] == ["a", "b", "c"]
    assert not gate.has_waiting


def test_durable_message_does_not_wait() -> None:
    safe = Safe(flushed_offset=50)
    gate = safe.gate()
    gate.wait(50, safe.teller("a"))
    assert safe.told == [("a", PutMessageStatus.PUT_OK)]


def test_slow_disk_is_reported_at_the_deadline() -> None:
    safe = Safe()
    gate = safe.gate()
    gate.wait(10, safe.teller("a"))
    safe.now += 4.9
    gate.release()
    assert safe.told == []
    safe.now += 0.2
    gate.release()
    assert safe.told == [("a", PutMessageStatus.FLUSH_DISK_TIMEOUT)]


def test_sync_master_waits_for_a_slave() -> None:
    safe = Safe(slave_count=1)
    gate = safe.gate(sync_flush=False, sync_slave=True)
    gate.wait(10, safe.teller("a"))
    assert safe.told == []
    safe.offsets.push2slave_max_offset = 10
    gate.release()
    assert safe.told == [("a", PutMessageStatus.PUT_OK)]


def test_slow_slave_is_reported_at_the_deadline() -> None:
    safe = Safe(slave_count=1)
    gate = safe.gate(sync_flush=False, sync_slave=True)
    gate.wait(10, safe.teller("a"))
    safe.now += 3.1
    gate.release()
    assert safe.told == [("a", PutMessageStatus.FLUSH_SLAVE_TIMEOUT)]


@pytest.mark.parametrize(("slaves", "acknowledged"), [(0, 0), (1, -2000)])
def test_missing_slave_is_reported_at_once(slaves: int, acknowledged: int) -> None:
    safe = Safe(slave_count=slaves, push2slave_max_offset=acknowledged)
    gate = safe.gate(sync_flush=False, sync_slave=True)
    gate.wait(10, safe.teller("a"))
    assert safe.told == [("a", PutMessageStatus.SLAVE_NOT_AVAILABLE)]


def test_slave_status_takes_precedence_over_disk_status() -> None:
    safe = Safe()
    gate = safe.gate(sync_flush=True, sync_slave=True)
    gate.wait(10, safe.teller("a"))
    safe.now += 5.1
    gate.release()
    assert safe.told == [("a", PutMessageStatus.SLAVE_NOT_AVAILABLE)]
