"""The statuses of puts and gets, with RocketMQ's names, which clients see in remarks.

How each becomes a response code is the broker's business (docs/protocol/commands.md).
"""

from enum import StrEnum, auto


class _Named(StrEnum):
    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:  # noqa: ARG004
        return name


class PutMessageStatus(_Named):
    """The outcome of appending a message (4.9 has these and no others)."""

    PUT_OK = auto()
    FLUSH_DISK_TIMEOUT = auto()
    FLUSH_SLAVE_TIMEOUT = auto()
    SLAVE_NOT_AVAILABLE = auto()
    SERVICE_NOT_AVAILABLE = auto()
    CREATE_MAPEDFILE_FAILED = auto()  # compat: RocketMQ's spelling; it is in remarks
    MESSAGE_ILLEGAL = auto()
    PROPERTIES_SIZE_EXCEEDED = auto()
    OS_PAGECACHE_BUSY = auto()
    UNKNOWN_ERROR = auto()
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = auto()

    @property
    def is_stored(self) -> bool:
        """Whether the message is in the log and will be consumed, acknowledged in full or not."""
        return self in _STORED


class GetMessageStatus(_Named):
    """The outcome of reading from a queue."""

    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    MESSAGE_WAS_REMOVING = auto()
    OFFSET_FOUND_NULL = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_TOO_SMALL = auto()
    NO_MATCHED_LOGIC_QUEUE = auto()
    NO_MESSAGE_IN_QUEUE = auto()


_STORED = frozenset(
    {
        PutMessageStatus.PUT_OK,
        PutMessageStatus.FLUSH_DISK_TIMEOUT,
        PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
        PutMessageStatus.SLAVE_NOT_AVAILABLE,
    }
)
