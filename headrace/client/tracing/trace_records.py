"""Records of message trace, in the format of RocketMQ's tools: fields separated by 0x01, 0x02 at the end (client spec 2.15).

The body of a trace message is a sequence of records. Its keys are the ids and keys of the traced messages.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from headrace.client.sending.send_hooks import MessageKind

FIELD_SEPARATOR: Final = "\x01"
RECORD_END: Final = "\x02"


class TraceConsumeCode(IntEnum):
    """The outcome of consuming, as numbered in SubAfter records."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """A record's text, and the keys to find it by."""

    text: str
    keys: frozenset[str]


def _record(fields: list[Any], message_id: str, keys: str) -> TraceRecord:
    text = FIELD_SEPARATOR.join(map(_text, fields)) + RECORD_END
    return TraceRecord(text, frozenset(word for word in (message_id, *keys.split(" ")) if word))


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def publish_record(
    *,
    timestamp: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    broker_address: str,
    body_size: int,
    cost_ms: int,
    kind: MessageKind,
    offset_message_id: str,
    is_success: bool,
) -> TraceRecord:
    """Returns the record of a message that was sent. Group and topic without namespace."""
    fields = [
        "Pub", timestamp, region, group, topic, message_id, tags or "", keys or "", broker_address, body_size, cost_ms, int(kind),
        offset_message_id, is_success,
    ]  # fmt: skip
    return _record(fields, message_id, keys or "")


def consume_before_record(
    *, timestamp: int, region: str, group: str, request_id: str, message_id: str, retry_times: int, keys: str | None
) -> TraceRecord:
    """Returns the record before a message is consumed. `request_id` links it to the record after."""
    fields = ["SubBefore", timestamp, region, group, request_id, message_id, retry_times, keys or ""]
    return _record(fields, message_id, keys or "")


def consume_after_record(
    *,
    request_id: str,
    message_id: str,
    cost_ms: int,
    is_success: bool,
    keys: str | None,
    code: TraceConsumeCode,
    timestamp: int,
    group: str,
    is_cloud: bool = False,
) -> TraceRecord:
    """Returns the record after a message was consumed."""
    fields: list[Any] = ["SubAfter", request_id, message_id, cost_ms, is_success, keys or "", int(code)]
    if not is_cloud:
        fields += [timestamp, group]
    return _record(fields, message_id, keys or "")


def end_transaction_record(
    *,
    timestamp: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    broker_address: str,
    transaction_id: str | None,
    state: str,
    is_from_check: bool,
) -> TraceRecord:
    """Returns the record of the end of a transaction. `state` is COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""
    fields = [
        "EndTransaction", timestamp, region, group, topic, message_id, tags or "", keys or "", broker_address,
        int(MessageKind.TRANSACTION_COMMIT), transaction_id, state, is_from_check,
    ]  # fmt: skip
    return _record(fields, message_id, keys or "")
