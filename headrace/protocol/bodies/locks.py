"""Locks of queues, which orderly consumers hold at a broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.model.message_queue import MessageQueue
from headrace.protocol.json_bean import JsonBody


@dataclass(slots=True)
class LockBatchRequestBody(JsonBody):
    """Body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    consumer_group: str | None = None
    client_id: str | None = None
    mq_set: list[MessageQueue] = field(default_factory=list)


UnlockBatchRequestBody = LockBatchRequestBody


@dataclass(slots=True)
class LockBatchResponseBody(JsonBody):
    """The requested queues whose lock the client now has."""

    NAMES: ClassVar[Mapping[str, str]] = {"lock_ok_mq_set": "lockOKMQSet"}

    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list)
