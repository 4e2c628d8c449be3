"""Java's hash of ASCII text in memory, for compiled modules: `headrace.model.java_hash` has the hash of any text.

Compiled modules use the C functions of the `.pxd` beside this file, interpreted ones the functions below. This is a package because it must
not be compiled itself: compiled and interpreted modules may then be mixed.
"""


def hash_ascii(data: bytes | memoryview, at: int, end: int, value: int) -> int:
    """The hash of the text that goes on with these bytes after text of the hash `value`, as an unsigned number; -1 if they are not all ASCII."""
    text = bytes(data[at:end])
    if not text.isascii():
        return -1
    for unit in text:
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value


def as_int(value: int) -> int:
    """An unsigned 32-bit number as Java's int."""
    return value - 0x100000000 if value & 0x80000000 else value
