"""Valid inputs to start from: Apache's own frames and records, and records of every shape that the format has."""

import json
import lzma
import tarfile
from functools import cache
from itertools import product
from typing import Any

from headrace.protocol.frame_layout import FRAME_MAX_LENGTH
from headrace.protocol.record import encode_record
from headrace.protocol.record_layout import MESSAGE_MAGIC, MESSAGE_MAGIC_V2
from support import golden

_LONGEST_SEED = 4096


@cache
def request_frames() -> tuple[bytes, ...]:
    """Whole request frames of all wire scenarios: a few of each code and encoding, without duplicates."""
    by_kind: dict[tuple[int, int], set[bytes]] = {}
    for scenario in golden.scenarios():
        for line in golden.frames(scenario):
            frame = line.get("bytes")
            if frame is None or not 8 <= len(frame) <= _LONGEST_SEED:
                continue
            kind = by_kind.setdefault((frame[4], _code_of(frame)), set())
            if len(kind) < 6:
                kind.add(frame)
    return tuple(sorted(frame for kind in by_kind.values() for frame in kind))


def _code_of(frame: bytes) -> int:
    """A key that differs between codes: the number after the first `"code":`, or a binary header's first two bytes."""
    if frame[4]:
        return int.from_bytes(frame[8:10], "big")
    before, _, after = frame.partition(b'"code":')
    return int(after[:5].split(b",")[0].split(b"}")[0]) if after and before else -1


def split_frame(frame: bytes) -> tuple[int, bytes, bytes]:
    """The header's type, the header, the body."""
    end = 8 + int.from_bytes(frame[5:8], "big")
    return frame[4], frame[8:end], frame[end:]


def join_frame(kind: int, header: bytes, body: bytes) -> bytes:
    """A frame with correct lengths."""
    length = 4 + len(header) + len(body)
    assert length < FRAME_MAX_LENGTH
    return length.to_bytes(4, "big") + bytes([kind & 255]) + len(header).to_bytes(3, "big") + header + body


@cache
def golden_records() -> tuple[bytes, ...]:
    """Some raw records of each golden store."""
    records = []
    for store in golden.stores():
        with tarfile.open(golden.GOLDEN / "stores" / f"{store}.tar.xz") as archive:
            member = next(one for one in archive if "/commitlog/0" in one.name)
            file = archive.extractfile(member)
            assert file is not None
            data = file.read()
        at = 0
        for _ in range(40):
            size = int.from_bytes(data[at : at + 4], "big")
            if data[at + 4 : at + 8] not in (_MAGIC, _MAGIC_V2):
                break
            if size <= _LONGEST_SEED:
                records.append(data[at : at + size])
            at += size
    return tuple(records)


_MAGIC = (MESSAGE_MAGIC & 0xFFFFFFFF).to_bytes(4, "big")
_MAGIC_V2 = (MESSAGE_MAGIC_V2 & 0xFFFFFFFF).to_bytes(4, "big")


@cache
def shapes() -> tuple[dict[str, Any], ...]:
    """Fields of records of all shapes: hosts, magics, flags, properties, bodies."""
    texts = [
        "",
        "TAGS\x01a",
        "TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01U\x02n\x017",
        "KEYS\x01ü\x02n\x01-3.5\x02n\x01x",
        "a\x01b\x02" * 20,
    ]
    return tuple(
        {"topic": topic, "body": body, "properties": text, "sys_flag": flag, "magic": magic, "queue_id": queue_id}
        for topic, body, text, flag, magic, queue_id in product(
            ["T", "Größe"],
            [b"", b"hello"],
            texts,
            [0, 0x10, 0x30, 4, 12, 0x80],
            [MESSAGE_MAGIC, MESSAGE_MAGIC_V2],
            [0, 3],
        )
    )


def record(shape: dict[str, Any], physical_offset: int, queue_offset: int = 0) -> bytes:
    """A record of this shape whose header has this physical offset."""
    fields = dict(shape)
    flag = int(fields["sys_flag"])
    hosts: dict[str, Any] = {
        "born_host": ("::1", 5) if flag & 0x10 else ("10.1.2.3", 4),
        "store_host": ("::2", 6) if flag & 0x20 else ("10.0.0.1", 3),
    }
    return encode_record(
        **fields, **hosts, physical_offset=physical_offset, queue_offset=queue_offset, store_timestamp=1_700_000_000_000
    )


@cache
def expressions() -> tuple[str, ...]:
    """Expressions whose outcomes are known from Apache's filter."""
    lines = lzma.decompress((golden.GOLDEN / "sql92.jsonl.xz").read_bytes()).splitlines()
    found = {json.loads(line)["expression"] for line in lines[::7]}
    return tuple(sorted(one for one in found if len(one) < 300))
