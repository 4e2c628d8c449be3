"""Bits of a message's sysFlag: set by the client, completed by the broker, stored in the record (remoting spec 5.3)."""

from typing import Final

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2

TRANSACTION_NOT: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC

BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20

# RocketMQ 5: batches stored as one record.
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80

COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300
COMPRESSION_MASK: Final = 0x700


def transaction_type(sys_flag: int) -> int:
    """Returns one of the four TRANSACTION_… values."""
    return sys_flag & TRANSACTION_MASK


def with_transaction_type(sys_flag: int, transaction: int) -> int:
    """Returns the flag with its transaction bits replaced."""
    return sys_flag & ~TRANSACTION_MASK | transaction


def compression_type(sys_flag: int) -> int:
    """Returns one of the COMPRESSION_… values; no bits mean zlib, which old clients did not mark."""
    return sys_flag & COMPRESSION_MASK or COMPRESSION_ZLIB


def is_queued(sys_flag: int) -> bool:
    """Whether the record gets a ConsumeQueue entry: prepared and rolled-back ones do not."""
    return sys_flag & TRANSACTION_MASK in (TRANSACTION_NOT, TRANSACTION_COMMIT)
