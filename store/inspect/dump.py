"""The content of a store as dictionaries for JSON lines: records, blanks, queue entries, index headers, slots and entries, the checkpoint.

`kind` says which: `record`, `blank`, `end` (where a log file's records stop; `zero`: only zeros follow), `queue`, `batch` (RocketMQ 5),
`index`, `indexSlot`, `indexEntry`, `checkpoint`. Other keys have RocketMQ's names. Bodies up to 256 bytes come in Base64, longer ones as
SHA-256; a compressed one in both forms. Nothing is validated here: bytes are printed as they are, as far as they can be decoded.
"""

import base64
import hashlib
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.model import sys_flag as sys_flags
from headrace.model.host import Host, encode_host
from headrace.protocol.compression import decompress
from headrace.protocol.consume_queue_layout import BATCH_ENTRY, BATCH_ENTRY_SIZE, ENTRY, ENTRY_SIZE, is_ext_address
from headrace.protocol.record import decode_record
from headrace.protocol.record_layout import BLANK_MAGIC, MESSAGE_MAGIC, MESSAGE_MAGIC_V2, PREFIX
from store.config import StoreConfig
from store.consume_queue.ext_reader import ConsumeQueueExtReader
from store.index.layout import ENTRY as INDEX_ENTRY
from store.index.layout import HEADER, HEADER_SIZE, SLOT_SIZE, entry_position, slot_position
from store.inspect.files import (
    QueueDirectory,
    StoredFile,
    commit_log_directory,
    is_zero,
    list_files,
    list_queues,
)

Line = dict[str, Any]

_BODY_SHOWN = 256
_CHECKPOINT_FIELDS = (
    "physicMsgTimestamp",
    "logicsMsgTimestamp",
    "indexMsgTimestamp",
    "masterFlushedOffset",
    "confirmPhyOffset",
)


def dump_all(
    path: Path, slots: int = StoreConfig.max_hash_slot_num, entries: int = StoreConfig.max_index_num
) -> Iterator[Line]:
    """Everything in the store at this root. `slots` and `entries` are maxHashSlotNum and maxIndexNum, which IndexFiles do not say."""
    yield from dump_records(path)
    yield from dump_queues(path)
    yield from dump_batches(path)
    yield from dump_index(path, slots, entries)
    yield from dump_checkpoint(path)


def dump_records(path: Path, from_offset: int = 0) -> Iterator[Line]:
    """The CommitLog in physical order, from the record at `from_offset` on, or from the first file's begin after it."""
    for file in list_files(commit_log_directory(path)):
        if file.end > from_offset:
            yield from _dump_log_file(file, max(0, from_offset - file.start))


def dump_queues(path: Path) -> Iterator[Line]:
    """The entries of all ConsumeQueues."""
    for queue in list_queues(path / "consumequeue"):
        yield from _dump_queue(path, queue)


def dump_queue(path: Path, topic: str, queue_id: int) -> Iterator[Line]:
    """The entries of one ConsumeQueue; none if there is no such queue."""
    yield from _dump_queue(path, QueueDirectory(path / "consumequeue" / topic / str(queue_id), topic, queue_id))


def dump_batches(path: Path) -> Iterator[Line]:
    """The entries of RocketMQ 5's queues of batches."""
    for queue in list_queues(path / "batchconsumequeue"):
        for file in list_files(queue.path):
            view = file.map() or b""
            for at in range(0, len(view) - BATCH_ENTRY_SIZE + 1, BATCH_ENTRY_SIZE):
                offset, size, tags, stored, base, count, compacted, _ = BATCH_ENTRY.unpack_from(view, at)
                if size <= 0:
                    break
                yield {
                    "kind": "batch", "topic": queue.topic, "queueId": queue.queue_id, "file": file.name, "position": at,
                    "offset": offset, "size": size, "tagsCode": tags, "storeTimestamp": stored, "baseOffset": base,
                    "batchSize": count, "compactedOffset": compacted,
                }  # fmt: skip


def dump_index(
    path: Path, slots: int = StoreConfig.max_hash_slot_num, entries: int = StoreConfig.max_index_num
) -> Iterator[Line]:
    """The IndexFiles: of each the header, the slots in use, the entries."""
    for file in list_files(path / "index"):
        view = file.map()
        if view is None or len(view) < HEADER_SIZE:
            continue
        # order: the header first; a running dispatch stores what it counts before it counts it.
        begin, end, begin_offset, end_offset, slots_used, count = HEADER.unpack(bytes(view[:HEADER_SIZE]))
        yield {
            "kind": "index", "file": file.name, "beginTimestamp": begin, "endTimestamp": end, "beginPhyOffset": begin_offset,
            "endPhyOffset": end_offset, "hashSlotCount": slots_used, "indexCount": count, "slots": slots, "entries": entries,
        }  # fmt: skip
        yield from _dump_slots(file.name, view, slots)
        yield from _dump_entries(file.name, view, slots, count)


def dump_checkpoint(path: Path) -> Iterator[Line]:
    """The checkpoint, if there is one."""
    file = path / "checkpoint"
    data = file.read_bytes() if file.exists() else b""
    if len(data) >= 8 * len(_CHECKPOINT_FIELDS):
        values = [int.from_bytes(data[at : at + 8], "big", signed=True) for at in range(0, 40, 8)]
        yield {"kind": "checkpoint", **dict(zip(_CHECKPOINT_FIELDS, values, strict=True))}


def _dump_log_file(file: StoredFile, position: int) -> Iterator[Line]:
    view, at = file.map(), position
    if view is None:
        return
    while at + PREFIX.size <= len(view):
        size, magic = PREFIX.unpack_from(view, at)
        where = {"file": file.name, "position": at, "offset": file.start + at}
        if magic == BLANK_MAGIC:
            yield {"kind": "blank", **where, "size": size}
            return
        if magic not in (MESSAGE_MAGIC, MESSAGE_MAGIC_V2) or not 0 < size <= len(view) - at:
            break
        try:
            yield _describe_record(file, view, at, size, magic)
        except HeadraceError:
            break
        at += size
    yield {"kind": "end", "file": file.name, "position": at, "offset": file.start + at, "zero": is_zero(file, at)}


def _describe_record(file: StoredFile, view: memoryview, at: int, size: int, magic: int) -> Line:
    message = decode_record(view[at : at + size])
    line: Line = {
        "kind": "record", "file": file.name, "position": at, "offset": message.physical_offset, "size": size, "magic": magic,
        "bodyCRC": message.body_crc, "queueId": message.queue_id, "flag": message.flag, "queueOffset": message.queue_offset,
        "sysFlag": message.sys_flag, "bornTimestamp": message.born_timestamp, "bornHost": _format_host(message.born_host),
        "storeTimestamp": message.store_timestamp, "storeHost": _format_host(message.store_host),
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset, "topic": message.topic,
        "properties": dict(sorted(message.properties.items())),
        "propertiesString": message.properties_raw.decode(errors="replace"),
        "offsetMsgId": (encode_host(message.store_host) + message.physical_offset.to_bytes(8, "big", signed=True)).hex().upper(),
        **_describe_body("body", message.body),
    }  # fmt: skip
    if message.sys_flag & sys_flags.COMPRESSED:
        try:
            line |= _describe_body("plainBody", decompress(message.body, message.sys_flag))
        except HeadraceError as error:
            line["plainBodyError"] = str(error)
    return line


def _describe_body(name: str, body: bytes) -> Line:
    if len(body) <= _BODY_SHOWN:
        return {f"{name}Length": len(body), name: base64.b64encode(body).decode()}
    return {f"{name}Length": len(body), f"{name}Sha256": hashlib.sha256(body).hexdigest()}


def _format_host(host: Host) -> str:
    """As Java writes it: IPv6 in eight groups without leading zeros, an IPv4 address in IPv6 clothes as IPv4."""
    address = ipaddress.ip_address(host[0])
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        groups = (int(group, 16) for group in address.exploded.split(":"))
        return f"{mapped or ':'.join(f'{group:x}' for group in groups)}:{host[1]}"
    return f"{address}:{host[1]}"


def _dump_queue(path: Path, queue: QueueDirectory) -> Iterator[Line]:
    units = open_units(path, queue)
    for file in list_files(queue.path):
        view = file.map() or b""
        for at in range(0, len(view) - ENTRY_SIZE + 1, ENTRY_SIZE):
            offset, size, tags = ENTRY.unpack_from(view, at)
            if size <= 0:
                break
            line: Line = {
                "kind": "queue", "topic": queue.topic, "queueId": queue.queue_id, "file": file.name,
                "index": (file.start + at) // ENTRY_SIZE, "offset": offset, "size": size, "tagsCode": tags,
            }  # fmt: skip
            unit = units.read(tags) if units is not None and is_ext_address(tags) else None
            if unit is not None:
                line |= {
                    "extTagsCode": unit.tags_code, "extStoreTime": unit.store_timestamp, "extSize": unit.size,
                    "extBitMap": unit.bit_map.hex().upper(),
                }  # fmt: skip
            yield line


def open_units(path: Path, queue: QueueDirectory) -> ConsumeQueueExtReader | None:
    """The reader of a queue's extended units; None if it has none."""
    directory = path / "consumequeue_ext" / queue.topic / str(queue.queue_id)
    files = list_files(directory)
    return ConsumeQueueExtReader(directory, files[0].size) if files and files[0].size else None


def _dump_slots(name: str, view: memoryview, slots: int) -> Iterator[Line]:
    for slot in range(slots):
        at = slot_position(slot)
        value = int.from_bytes(view[at : at + SLOT_SIZE], "big", signed=True)
        if value:
            yield {"kind": "indexSlot", "file": name, "slot": slot, "value": value}


def _dump_entries(name: str, view: memoryview, slots: int, count: int) -> Iterator[Line]:
    for number in range(1, count):
        at = entry_position(slots, number)
        if at + INDEX_ENTRY.size > len(view):
            return
        key_hash, offset, seconds, previous = INDEX_ENTRY.unpack_from(view, at)
        yield {
            "kind": "indexEntry", "file": name, "number": number, "keyHash": key_hash, "offset": offset,
            "seconds": seconds, "previous": previous,
        }  # fmt: skip
