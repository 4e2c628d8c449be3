"""The result of a send."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headrace.model.message_queue import MessageQueue
from headrace.protocol.response_code import ResponseCode


class SendStatus(Enum):
    """How safely a message is stored. In all four cases the broker has it."""

    SEND_OK = "SEND_OK"
    """Stored as safely as the broker is configured to."""
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Not flushed to disk in time (SYNC_FLUSH)."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Not copied to a slave in time (SYNC_MASTER)."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """No slave is close enough behind to copy it to (SYNC_MASTER)."""


STATUS_OF_CODE: Final = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}

DEFAULT_REGION: Final = "DefaultRegion"


@dataclass(slots=True, frozen=True)
class SendResult:
    """A message that a broker has stored.

    `message_id` was assigned by the client, `offset_message_id` encodes where it is stored; for a batch both are comma-separated lists, and
    `queue_offset` is that of the first message. `transaction_id` is set in transactions only. `region` and `trace_on` are the broker's, for message trace.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region: str = DEFAULT_REGION
    trace_on: bool = True

    @property
    def ok(self) -> bool:
        """Whether it is stored as safely as the broker is configured to."""
        return self.status is SendStatus.SEND_OK


_blank: Final = SendResult.__new__
_setters: Final = tuple(getattr(SendResult, name).__set__ for name in SendResult.__slots__)
(
    _set_status, _set_message_id, _set_offset_message_id, _set_queue, _set_queue_offset, _set_transaction_id, _set_region, _set_trace_on,
) = _setters  # fmt: skip


def stored_result(
    status: SendStatus,
    message_id: str,
    offset_message_id: str,
    queue: MessageQueue,
    queue_offset: int,
    transaction_id: str | None,
    region: str,
    trace_on: bool,
) -> SendResult:
    """Creates a SendResult at half the cost of its constructor: a frozen dataclass looks up a setter by name for each field."""
    result = _blank(SendResult)
    _set_status(result, status)
    _set_message_id(result, message_id)
    _set_offset_message_id(result, offset_message_id)
    _set_queue(result, queue)
    _set_queue_offset(result, queue_offset)
    _set_transaction_id(result, transaction_id)
    _set_region(result, region)
    _set_trace_on(result, trace_on)
    return result
