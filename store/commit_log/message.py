"""What the broker hands to the appender, and what it gets back.

`properties` is the property string as it is to be stored (`name 0x01 value` joined by 0x02, UTF-8): what a request's
properties become before they are stored is the business of the broker's processors (spec of sends), not of the log.
"""

from dataclasses import dataclass

from store.status import PutMessageStatus


@dataclass(slots=True)
class MessageToStore:
    """A message that is ready to become a CommitLog record."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: tuple[str, int] = ("127.0.0.1", 0)
    store_host: tuple[str, int] = ("127.0.0.1", 0)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    wait_store: bool = True
    """Answer only when the record is as safe as the broker's settings ask (property WAIT)."""


@dataclass(slots=True)
class PutResult:
    """Where a message, or the first of a batch, was appended; without offsets when it was refused."""

    status: PutMessageStatus
    physical_offset: int = -1
    size_bytes: int = 0
    queue_offset: int = -1
    store_timestamp: int = 0
    message_ids: str = ""
    """The message's id; those of a batch joined by commas, as clients are told them."""

    @property
    def end_offset(self) -> int:
        """Where the log ended after the append: what an acknowledgement waits for."""
        return self.physical_offset + self.size_bytes
