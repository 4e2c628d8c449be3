"""Appending for the processors: what is refused, what a put waits for, and that a batch is all or nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from broker.appending import appender as appender_module
from broker.appending.ack_gate import AckGate
from broker.appending.appender import Appender
from broker.sending.hot_send import SendPath
from headrace.model import sys_flag
from headrace.model.host import encode_host
from headrace.model.message_id import encode_offset_message_id
from headrace.protocol.batch import encode_entry
from headrace.protocol.record import decode_records
from store.commit_log.message import MessageToStore, PutResult
from store.config import ASYNC_FLUSH, SYNC_FLUSH, StoreConfig
from store.status import PutMessageStatus
from support.hot_sends import LogInMemory
from support.safe_offsets import SafeOffsets

T = TypeVar("T")

FILE_SIZE = 1 << 18
CONFIG = StoreConfig(mapped_file_size_commit_log=FILE_SIZE, max_message_size=65536)
STORE_HOST = ("10.0.0.9", 10911)


class World:
    """An appender over a log in memory."""

    def __init__(self, files: int = 4, *, sync_flush: bool = False) -> None:
        self.log = LogInMemory(files, FILE_SIZE)
        self.offsets = SafeOffsets()
        self.is_writeable = True
        self.rings: list[int] = []
        self.now = 0.0
        gate_config = StoreConfig(flush_disk_type=SYNC_FLUSH if sync_flush else ASYNC_FLUSH)
        self.gate = AckGate(self.offsets.control, lambda: self.now, gate_config)
        self.appender = Appender(
            self.log.appender,
            self.gate,
            CONFIG,
            lambda: "" if self.is_writeable else "the disk is too full",
            lambda: self.rings.append(self.log.published),
        )
        store_host = encode_host(STORE_HOST)
        self.path = SendPath(self.log.appender, store_host, "C", "R", True, 409, 65536, False)

    def reserve(self, files: int) -> None:
        self.log.words[3] = files * FILE_SIZE

    def append(self, given: MessageToStore | None = None) -> PutResult:
        result = self.appender.append(given or message())
        assert result is not None
        return result

    def append_batch(self, *entries: bytes, **fields: Any) -> PutResult:
        result = self.appender.append_batch(self.path, message(b"".join(entries), **fields), len(entries))
        assert result is not None
        return result


def message(body: bytes = b"body", queue_id: int = 0, **fields: Any) -> MessageToStore:
    given = {"topic": "T", "properties": b"k\x01v", "store_host": STORE_HOST, "born_host": ("10.1.1.1", 7), **fields}
    return MessageToStore(queue_id=queue_id, body=body, **given)


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(asyncio.wait_for(main(), 60))


def test_message_is_appended_and_published_and_its_offsets_returned() -> None:
    world = World()
    first, second = world.append(), world.append(message(b"other", reconsume_times=2, prepared_transaction_offset=77))
    assert (first.status, first.physical_offset, first.queue_offset) == (PutMessageStatus.PUT_OK, 0, 0)
    assert (second.physical_offset, second.queue_offset) == (first.size_bytes, 1)
    assert second.end_offset == world.log.published == world.log.appender.wrote_offset
    assert second.message_ids == encode_offset_message_id(STORE_HOST, first.size_bytes)
    assert world.rings == [first.end_offset, second.end_offset]
    record = decode_records(world.log.bytes())[1]
    assert (record.body, record.reconsume_times, record.prepared_transaction_offset) == (b"other", 2, 77)
    assert (record.born_host, record.store_host) == (("10.1.1.1", 7), STORE_HOST)
    assert record.store_timestamp == second.store_timestamp > 0


def test_sys_flag_marks_ipv6_hosts() -> None:
    world = World()
    both = sys_flag.BORN_HOST_V6 | sys_flag.STORE_HOST_V6
    world.append(message(sys_flag=both | 1))
    world.append(message(born_host=("::1", 7), store_host=("2001:db8::1", 8)))
    plain, six = decode_records(world.log.bytes())
    assert plain.sys_flag == 1
    assert (six.sys_flag, six.born_host, six.store_host) == (both, ("::1", 7), ("2001:db8::1", 8))


@pytest.mark.parametrize("kind", [sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_ROLLBACK])
def test_prepared_and_rolled_back_messages_get_no_queue_offset(kind: int) -> None:
    world = World()
    world.append()
    assert world.append(message(sys_flag=kind)).queue_offset == 0
    assert world.append(message(sys_flag=sys_flag.TRANSACTION_COMMIT)).queue_offset == 1
    assert [record.queue_offset for record in decode_records(world.log.bytes())] == [0, 0, 1]


def test_queue_offsets_are_counted_per_queue() -> None:
    world = World()
    assert [world.append(message(queue_id=number)).queue_offset for number in (0, 3, 0, 3, 1)] == [0, 0, 1, 1, 0]
    assert world.append(message(topic="U")).queue_offset == 0


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"body": b"x" * 65537}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"topic": "x" * 128}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"properties": b"x" * 32768}, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_message_too_large_for_a_record_is_refused_without_a_trace(
    fields: dict[str, Any], status: PutMessageStatus
) -> None:
    world = World()
    result = world.append(message(**fields))
    assert (result.status, result.physical_offset, result.message_ids) == (status, -1, "")
    entry = encode_entry(fields.pop("body", b"x"), 0, b"")
    assert world.append_batch(entry, **fields).status is status
    assert world.log.appender.wrote_offset == 0
    assert world.rings == []


def test_largest_possible_message_is_stored() -> None:
    world = World()
    result = world.append(message(b"x" * 65536, topic="t" * 127, properties=b"p" * 32767))
    assert result.status is PutMessageStatus.PUT_OK
    assert decode_records(world.log.bytes())[0].size_bytes == 91 + 65536 + 127 + 32767


def test_read_only_store_refuses_messages() -> None:
    world = World()
    world.is_writeable = False
    assert world.append().status is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_batch_is_contiguous_with_one_publication_and_one_timestamp() -> None:
    world = World()
    result = world.append_batch(*(encode_entry(b"%d" % number, number, b"own\x01v") for number in range(5)))
    records = decode_records(world.log.bytes())
    assert [record.queue_offset for record in records] == [0, 1, 2, 3, 4]
    assert len({record.store_timestamp for record in records}) == 1
    assert [(record.body, record.flag) for record in records] == [(b"%d" % number, number) for number in range(5)]
    assert {record.properties_raw for record in records} == {b"own\x01v\x02k\x01v"}
    ids = [encode_offset_message_id(STORE_HOST, record.physical_offset) for record in records]
    assert result.message_ids == ",".join(ids)
    assert world.appender.stats.messages_stored == 5
    assert (result.queue_offset, result.size_bytes) == (0, world.log.published)
    assert len(world.rings) == 1


def test_batch_that_does_not_fit_the_file_is_stored_in_the_next() -> None:
    world = World()
    for _ in range(4):
        world.append(message(b"x" * 60_000))
    before = world.log.published
    result = world.append_batch(encode_entry(b"x" * 10_000, 0, b""), encode_entry(b"y" * 30_000, 0, b""))
    assert before < FILE_SIZE == result.physical_offset
    assert result.queue_offset == 4
    blank = world.log.bytes()[before : before + 8]
    assert blank == (FILE_SIZE - before).to_bytes(4, "big") + bytes.fromhex("CBD43194")


def test_batch_larger_than_a_file_is_refused() -> None:
    world = World()
    result = world.append_batch(*[encode_entry(b"x" * 5, 0, b"")] * 9, properties=b"p" * 32000)
    assert result.status is PutMessageStatus.MESSAGE_ILLEGAL
    assert world.log.appender.wrote_offset == 0


def test_append_waits_without_a_reserved_file() -> None:
    world = World(files=0)
    assert world.appender.append(message()) is None
    assert world.log.appender.wrote_offset == 0


def test_put_waits_for_the_next_file() -> None:
    async def main() -> list[PutResult]:
        world = World(files=0)
        puts = [asyncio.ensure_future(world.appender.put(message(b"%d" % number))) for number in range(3)]
        await asyncio.sleep(0)
        assert world.appender.waiting_for_file
        world.reserve(1)
        world.appender.file_reserved()
        results = await asyncio.gather(*puts)
        assert [record.body for record in decode_records(world.log.bytes())] == [b"0", b"1", b"2"]
        assert not world.appender.waiting_for_file
        return results

    assert [result.queue_offset for result in run(main)] == [0, 1, 2]


def test_missing_file_is_reported_after_a_timeout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(appender_module, "FILE_WAIT_S", 0.05)
    world = World(files=0)
    assert run(lambda: world.appender.put(message())).status is PutMessageStatus.CREATE_MAPEDFILE_FAILED
    assert "no CommitLog file was allocated" in caplog.text


def test_put_passes_the_gate_when_the_message_is_durable() -> None:
    async def main() -> None:
        world = World(sync_flush=True)
        hasty = await world.appender.put(message(wait_store=False))
        assert hasty.status is PutMessageStatus.PUT_OK
        first = asyncio.ensure_future(world.appender.put(message()))
        await asyncio.sleep(0)
        entries = encode_entry(b"a", 0, b"") + encode_entry(b"b", 0, b"")
        second = world.appender.start_put_batch(world.path, message(entries), 2)
        assert not isinstance(second, PutResult)
        world.offsets.flushed_offset = 2 * hasty.size_bytes
        world.gate.release()
        assert (await first).status is PutMessageStatus.PUT_OK
        await asyncio.sleep(0)
        assert world.gate.has_waiting
        world.now = 5.0
        world.gate.release()
        assert (await second).status is PutMessageStatus.FLUSH_DISK_TIMEOUT

    run(main)


def test_put_cancelled_at_the_gate_affects_no_other() -> None:
    async def main() -> None:
        world = World(sync_flush=True)
        put = asyncio.ensure_future(world.appender.put(message()))
        await asyncio.sleep(0)
        put.cancel()
        await asyncio.gather(put, return_exceptions=True)
        world.now = 5.0
        world.gate.release()
        assert not world.gate.has_waiting

    run(main)


def test_put_that_need_not_wait_completes_at_once() -> None:
    async def main() -> None:
        world = World(sync_flush=True)
        world.offsets.flushed_offset = 1 << 20
        assert isinstance(world.appender.start_put(message()), PutResult)
        assert isinstance(World().appender.start_put(message()), PutResult)

    run(main)
