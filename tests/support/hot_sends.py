"""Sends by the hot path into a log in memory, and the records and answers for a stream of frames."""

import json
import random
import struct
from collections.abc import Iterable

from broker.access.access_rules import AccessRules
from broker.access.account import Account
from broker.access.permission import PUB_SUB
from broker.connections.hot_access import HotAccess
from broker.sending import hot_send
from headrace.errors import HeadraceError
from headrace.protocol import acl_signature
from headrace.protocol.batch import encode_entry
from headrace.protocol.frame import decode_frame
from headrace.protocol.record_layout import BLANK_MAGIC, BORN_HOST_AT, PREFIX, STORE_TIMESTAMP_SIZE
from store.commit_log import append

FILE_SIZE = 1 << 20
ALLOCATED_WORD = 3
NOW_MS = 1_800_000_000_000
STORE_HOST = bytes([127, 0, 0, 1]) + struct.pack(">i", 10911)
BORN_HOST = bytes([10, 1, 2, 3]) + struct.pack(">i", 40000)
VERSION = 409
ACCOUNT = Account("account-key", "secret-key", default_topic=PUB_SUB, default_group=PUB_SUB)


class LogInMemory:
    """A CommitLog of `files` files in memory, and what has been published of it."""

    def __init__(self, files: int = 4, file_size: int = FILE_SIZE, wrote_offset: int = 0) -> None:
        self.file_size = file_size
        self.memory: dict[int, bytearray] = {}
        self.published = wrote_offset
        self.published_timestamp = 0
        self.limit = wrote_offset
        self.words = memoryview(bytearray(64)).cast("q")
        self.words[ALLOCATED_WORD] = files * file_size
        self.appender = append.CommitLogAppender(
            self,  # type: ignore[arg-type]
            self._open,
            self.words,
            ALLOCATED_WORD,
            file_size,
            wrote_offset,
            wrote_offset,
        )

    def _open(self, start: int) -> memoryview:
        return memoryview(self.memory.setdefault(start, bytearray(self.file_size)))

    def append_limit(self, physical_offset: int) -> None:
        self.limit = physical_offset

    def wrote(self, physical_offset: int, store_timestamp: int) -> None:
        self.published = physical_offset
        self.published_timestamp = store_timestamp

    def bytes(self) -> bytes:
        """All files concatenated, up to the end of the log."""
        joined = b"".join(bytes(self.memory[start]) for start in sorted(self.memory))
        return joined[: self.appender.wrote_offset - min(self.memory, default=0)]


def send_path(log: LogInMemory, hold: bool = False) -> hot_send.SendPath:
    """A hot path with the topic TopicTest of eight queues, and MultiTag."""
    path = hot_send.SendPath(log.appender, STORE_HOST, "DefaultCluster", "DefaultRegion", True, VERSION, 4 << 20, hold)
    path.prepare_topic(b"TopicTest", 8, 0)
    path.prepare_topic(b"MultiTag", 1, 2)
    return path


def frame(header: bytes, body: bytes = b"") -> bytes:
    """A frame with a JSON header."""
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def send_frame(body: bytes = b"hello", opaque: int = 7, flag: int = 0, code: int = 310, **fields: str | None) -> bytes:
    """A SEND_MESSAGE_V2 frame in fastjson's format; `fields` replace or add ext fields, None removes one."""
    ext: dict[str, str | None] = {
        "a": "PG",
        "b": "TopicTest",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": "TAGS\x01TagA\x02KEYS\x01order-1\x02UNIQ_KEY\x01C0A8010A303918B4AAC247B760000007\x02WAIT\x01true",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    ext.update(fields)
    header = {
        "code": code,
        "extFields": {key: value for key, value in ext.items() if value is not None},
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": VERSION,
    }
    return frame(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode(), body)


_EXT_FIELDS = b'"extFields":{'
_UNSIGNED = b"A" * 27 + b"="


def signed_frame(unsigned: bytes) -> bytes:
    """The frame with ACCOUNT's access key and signature, wrong if the frame cannot be decoded; unchanged if it has no JSON extFields."""
    before, found, after = unsigned[8:].partition(_EXT_FIELDS)
    if not found:
        return unsigned
    account = f'"{acl_signature.ACCESS_KEY}":"{ACCOUNT.access_key}","{acl_signature.SIGNATURE}":"'.encode()
    header_size = int.from_bytes(unsigned[5:8], "big") + len(account) + len(_UNSIGNED) + 2
    size = int.from_bytes(unsigned[:4], "big") + len(account) + len(_UNSIGNED) + 2
    start = (size & 0xFFFFFFFF).to_bytes(4, "big") + unsigned[4:5] + (header_size & 0xFFFFFF).to_bytes(3, "big")
    made = start + before + found + account + _UNSIGNED + b'",' + after
    try:
        command = decode_frame(made)
    except HeadraceError:
        return made
    signature = acl_signature.sign(ACCOUNT.secret_key, command.ext, command.body or b"").encode()
    return made.replace(_UNSIGNED, signature, 1)


def random_body(chance: random.Random, is_batch: bool) -> bytes:
    """The body of a message or a batch, nearly always valid."""
    if not is_batch:
        return chance.randbytes(chance.choice([0, 1, 100, 1500]))
    entries = [
        encode_entry(
            chance.randbytes(chance.choice([0, 1, 100])),
            chance.choice([0, 5, -5]),
            chance.choice([b"", b"TAGS\x01a", b"TAGS\x01a\x02", b"\x02", b"k\x01" + b"v" * 300, b"\xff"]),
        )
        for _ in range(chance.choice([0, 1, 2, 2, 5, 40]))
    ]
    body = b"".join(entries)
    if chance.randrange(8) == 0:
        body = chance.choice([body[:-1], body + b"\0", body[: len(body) // 2], body + b"\xff" * 30])
    return body


def take_all(path: hot_send.SendPath, data: bytes, access: HotAccess | None = None) -> list[int]:
    """Feeds all frames to the path, skipping those it declines; returns the positions of the skipped ones."""
    left: list[int] = []
    position = 0
    while True:
        position = path.take(data, position, BORN_HOST, 0, access)
        if path.stopped_at == hot_send.PARTIAL:
            return left
        left.append(position)
        position += 4 + int.from_bytes(data[position : position + 4], "big")


def signed_outcome(data: bytes) -> bytes:
    """As `outcome`, where each frame has to be signed by ACCOUNT."""
    return outcome(data, access=HotAccess(AccessRules({ACCOUNT.access_key: ACCOUNT})))


def outcome(data: bytes, timestamp_free: bool = True, access: HotAccess | None = None) -> bytes:
    """The complete outcome of a stream of frames as JSON, to compare compiled and interpreted form."""
    log = LogInMemory()
    path = send_path(log)
    log.appender.begin(NOW_MS)
    left = take_all(path, data, access)
    log.appender.publish()
    records = log.bytes()
    if timestamp_free:
        records = b"".join(_without_store_timestamps(records, log.file_size))
    shown = {"left": left, "records": records.hex(), "answers": path.take_answers().hex(), "published": log.published}
    return json.dumps(shown, sort_keys=True).encode()


def _without_store_timestamps(records: bytes, file_size: int) -> Iterable[bytes]:
    at = 0
    while at < len(records):
        size, magic = PREFIX.unpack_from(records, at)
        if magic == BLANK_MAGIC:
            yield records[at : at + PREFIX.size]
            at += file_size - at % file_size
        else:
            timestamp_at = at + BORN_HOST_AT + len(BORN_HOST)
            after = timestamp_at + STORE_TIMESTAMP_SIZE
            yield records[at:timestamp_at] + bytes(STORE_TIMESTAMP_SIZE) + records[after : at + size]
            at += size
