"""Settings of producers. Frozen; the defaults are RocketMQ's (client spec 2.1). Automatic batching is off."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypedDict

from headrace.client.durations import Duration
from headrace.client.sending.send_hooks import SendHook
from headrace.client.settings import Trace, check_range, set_positive_seconds
from headrace.errors import ConfigError
from headrace.model import sys_flag as sys_flags
from headrace.model.names import AUTO_CREATE_TOPIC

MIB: Final = 1024 * 1024
RETRY_CODES: Final = frozenset({1, 14, 16, 17, 204, 205})
"""Answers after which a send is retried at another broker: SYSTEM_ERROR, SERVICE_NOT_AVAILABLE, NO_PERMISSION, TOPIC_NOT_EXIST, and two about units."""


class Compression(Enum):
    """How large bodies are compressed. LZ4 and ZSTD need the packages `lz4` and `zstandard`."""

    ZLIB = sys_flags.COMPRESSION_ZLIB
    LZ4 = sys_flags.COMPRESSION_LZ4
    ZSTD = sys_flags.COMPRESSION_ZSTD


class ProducerOptions(TypedDict, total=False):
    """The keywords that producers accept; ProducerSettings describes them."""

    send_timeout: Duration
    attempt_timeout: Duration | None
    retries: int
    retry_codes: frozenset[int]
    retry_not_stored: bool
    compression: Compression
    compress_over: int
    compress_level: int
    max_message_size: int
    create_topic_template: str
    create_topic_queues: int
    latency_fault_tolerance: bool
    linger: Duration | None
    batch_size: int
    max_in_flight: int
    max_in_flight_bytes: int
    hooks: Sequence[SendHook]
    trace: bool | Trace


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """How a producer sends.

    `send_timeout` covers all attempts of a send, `attempt_timeout` each of them, so that a silent broker leaves time for another.
    `retries`: attempts after the first one, at other brokers if there are any, after network failures and the answers in `retry_codes`.
    `retry_not_stored`: also after a result that is not `ok`; this may store the message twice. Bodies of `compress_over` bytes or more are compressed.
    `max_message_size` (bytes) limits the body before compression. `create_topic_template`, `create_topic_queues`: the broker creates a missing topic
    like this template, with at most that many queues. `latency_fault_tolerance`: avoid brokers that were slow or failed.
    `linger`: collect messages to one topic for this long, or until they have `batch_size` bytes, and send them as one batch.
    `max_in_flight`, `max_in_flight_bytes`: how many requests, and how many bytes of messages, may wait for an answer at once. Further sends wait, and
    the wait does not count against their timeout. Large values only fill queues: RocketMQ's brokers reject a request that has waited for 200 ms.
    """

    send_timeout: Duration = 3.0
    attempt_timeout: Duration | None = None
    retries: int = 2
    retry_codes: frozenset[int] = RETRY_CODES
    retry_not_stored: bool = False
    compression: Compression = Compression.ZLIB
    compress_over: int = 4096
    compress_level: int = 5
    max_message_size: int = 4 * MIB
    create_topic_template: str = AUTO_CREATE_TOPIC
    create_topic_queues: int = 4
    latency_fault_tolerance: bool = False
    linger: Duration | None = None
    batch_size: int = 64 * 1024
    max_in_flight: int = 1024
    max_in_flight_bytes: int = 64 * MIB
    hooks: Sequence[SendHook] = ()
    trace: bool | Trace = False

    def __post_init__(self) -> None:
        set_positive_seconds(self, "send_timeout")
        for name in ("attempt_timeout", "linger"):
            if getattr(self, name) is not None:
                set_positive_seconds(self, name)
        check_range(self, "retries", 0, 100)
        check_range(self, "compress_over", 1, 1 << 31)
        check_range(self, "compress_level", 0, 9)
        check_range(self, "max_message_size", 1, 16 * MIB)
        check_range(self, "create_topic_queues", 1, 65535)
        check_range(self, "batch_size", 1, self.max_message_size)
        check_range(self, "max_in_flight", 1, 60_000)
        check_range(self, "max_in_flight_bytes", 1, 1 << 31)
        if not isinstance(self.compression, Compression):
            raise ConfigError(
                f"compression={self.compression!r}: expected Compression.ZLIB, LZ4 or ZSTD", "compression"
            )
