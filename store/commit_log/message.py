"""The input and the result of an append.

`properties` is the stored property string (`name 0x01 value` joined by 0x02, UTF-8). The broker's processors convert the
properties of a request to it (spec of sends).
"""

from msgspec import Struct

from store.status import PutMessageStatus


class MessageToStore(Struct):
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
    """Whether the response waits until the record is as safe as the broker's settings require (property WAIT)."""


class PutResult(Struct):
    """Where a message, or the first of a batch, was appended; without offsets if it was refused."""

    status: PutMessageStatus
    physical_offset: int = -1
    size_bytes: int = 0
    queue_offset: int = -1
    store_timestamp: int = 0
    message_ids: str = ""
    """The id of the message; the ids of a batch joined by commas, as in responses."""

    @property
    def end_offset(self) -> int:
        """The end of the log after the append, for which an acknowledgement waits."""
        return self.physical_offset + self.size_bytes
