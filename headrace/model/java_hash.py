"""Java's String.hashCode, the basis of tags codes and index slots.

It runs over UTF-16 code units, so a character beyond U+FFFF counts twice, and wraps to a signed 32-bit number:
`string_hash("TagA") == 2598919`, `string_hash("polygenelubricants") == -2147483648`.
"""

from functools import lru_cache


def string_hash(text: str) -> int:
    """Returns Java's hash of a string, a signed 32-bit integer."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(units), 2):
            value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


@lru_cache(maxsize=4096)  # limit: tags are few; 4096 of them take half a megabyte
def tags_code(tags: str | None) -> int:
    """Returns the ConsumeQueue's code of a message's `TAGS`: the hash of the whole string, 0 without tags (remoting spec 5.8)."""
    return string_hash(tags) if tags else 0
