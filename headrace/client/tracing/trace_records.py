"""Records of message trace, as RocketMQ's tools read them: fields with 0x01 between them, 0x02 at the end (client spec 2.15).

Each record is one text; the body of a trace message is many of them. Its keys are the ids and keys of the messages that the records are about.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from headrace.client.sending.send_hooks import MessageKind

FIELD_SEPARATOR: Final = "\x01"
RECORD_END: Final = "\x02"


class TraceConsumeCode(IntEnum):
    """How consuming ended, as SubAfter records number it."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """A record's text, and the words by which it is to be found."""

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
    """A message was sent. Group and topic without namespace."""
    fields = [
        "Pub", timestamp, region, group, topic, message_id, tags or "", keys or "", broker_address, body_size, cost_ms, int(kind),
        offset_message_id, is_success,
    ]  # fmt: skip
    return _record(fields, message_id, keys or "")


def consume_before_record(
    *, timestamp: int, region: str, group: str, request_id: str, message_id: str, retry_times: int, keys: str | None
) -> TraceRecord:
    """A message is about to be consumed. `request_id` joins it to the record of the end."""
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
    """A message was consumed."""
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
    """A transaction was ended. `state` is COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""
    fields = [
        "EndTransaction", timestamp, region, group, topic, message_id, tags or "", keys or "", broker_address,
        int(MessageKind.TRANSACTION_COMMIT), transaction_id, state, is_from_check,
    ]  # fmt: skip
    return _record(fields, message_id, keys or "")
