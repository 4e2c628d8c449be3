"""Locks of queues, which orderly consumers hold at a broker."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from headrace.model.message_queue import MessageQueue
from headrace.protocol.json_bean import JsonBody


class LockBatchRequestBody(JsonBody):
    """Body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    consumer_group: str | None = None
    client_id: str | None = None
    mq_set: list[MessageQueue] = field(default_factory=list)


UnlockBatchRequestBody = LockBatchRequestBody


class LockBatchResponseBody(JsonBody):
    """The requested queues whose lock the client now has."""

    NAMES: ClassVar[Mapping[str, str]] = {"lock_ok_mq_set": "lockOKMQSet"}

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list)
