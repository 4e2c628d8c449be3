# cython: wraparound=False, cdivision=True
"""Whether a record has a key: the check of each record that an IndexFile leads to (compiled, see the `.pxd`).

An index knows only hashes. Compared are the texts, as clients decode them.
"""

import cython

from headrace.model.properties import KEY_SEPARATOR
from headrace.protocol.record_layout import REASONS
from store.errors import CorruptRecord

if not cython.compiled:
    from headrace.protocol.big_endian import address_of, copy_bytes, is_equal
    from headrace.protocol.record_layout import BLANK_RECORD, WHOLE, read_property, read_record


def record_with_key(view: memoryview, physical_offset: int, topic: str, key: str) -> bytes | None:
    """A copy of the record at the beginning of `view`, if its topic is this one and this is one of its keys or its unique id; else None.

    Raises CorruptRecord if no record begins there (lengths, magic, physical offset; not the CRC).
    """
    data = address_of(view)
    parts = read_record(data, 0, len(view), physical_offset)
    if parts.outcome == BLANK_RECORD:
        return None
    if parts.outcome != WHOLE:
        raise CorruptRecord(physical_offset, REASONS[parts.outcome])
    if _text(data, parts.topic_at, parts.topic_at + parts.topic_length) != topic:
        return None
    end = parts.size
    at = parts.properties_at
    keys_at = keys_end = unique_at = unique_end = 0
    while at < end:
        found = read_property(data, at, end)
        if found.name_length == 4 and is_equal(data, at, b"KEYS", 0, 4):
            keys_at = found.value_at
            keys_end = found.end
        elif found.name_length == 8 and is_equal(data, at, b"UNIQ_KEY", 0, 8):
            unique_at = found.value_at
            unique_end = found.end
        at = found.end + 1
    has_key = (unique_at > 0 and _text(data, unique_at, unique_end) == key) or (
        key in _text(data, keys_at, keys_end).split(KEY_SEPARATOR)
    )
    return copy_bytes(data, 0, end) if has_key else None


def _text(data: memoryview, at: int, end: int) -> str:
    return copy_bytes(data, at, end).decode(errors="replace")
