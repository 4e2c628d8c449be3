"""Settings of consumers. Frozen; the defaults are RocketMQ's (client spec 3.1, 4.1, 4.2)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from headrace.client.consuming.allocation import Allocator, averagely
from headrace.client.consuming.consume_hooks import ConsumeHook
from headrace.client.consuming.offset_store import OffsetStore
from headrace.client.consuming.start_offset import StartFrom
from headrace.client.durations import Duration
from headrace.client.settings import Trace, check_range, set_positive_seconds
from headrace.errors import ConfigError
from headrace.model.consumption import MessageModel

FOREVER: Final = -1


def _check_common(settings: Any) -> None:
    if not isinstance(settings.model, MessageModel):
        raise ConfigError(
            f"model={settings.model!r}: expected MessageModel.CLUSTERING or MessageModel.BROADCASTING", "model"
        )
    if not isinstance(settings.start_from, StartFrom):
        raise ConfigError(
            f"start_from={settings.start_from!r}: expected StartFrom.LAST, .FIRST or .at(moment)", "start_from"
        )
    if not callable(settings.allocator):
        raise ConfigError(
            f"allocator={settings.allocator!r}: expected a function such as headrace.averagely", "allocator"
        )
    check_range(settings, "pull_batch_size", 1, 1024)
    check_range(settings, "queue_threshold", 1, 65535)
    check_range(settings, "queue_threshold_mib", 1, 1024)
    check_range(settings, "max_span", 1, 65535)


class PushOptions(TypedDict, total=False):
    """The keywords that PushConsumer accepts; PushSettings describes them."""

    model: MessageModel
    orderly: bool
    start_from: StartFrom
    allocator: Allocator
    workers: int
    batch_size: int
    pull_batch_size: int
    pull_interval: Duration
    queue_threshold: int
    queue_threshold_mib: int
    topic_threshold: int | None
    topic_threshold_mib: int | None
    max_span: int
    post_subscription: bool
    max_reconsume_times: int
    suspend_time: Duration
    consume_timeout: Duration
    close_timeout: Duration
    offset_store: OffsetStore | None
    offsets_directory: str | os.PathLike[str] | None
    hooks: Sequence[ConsumeHook]
    trace: bool | Trace


@dataclass(frozen=True, slots=True)
class PushSettings:
    """How a PushConsumer consumes. All members of a group should have the same settings; the first four must be the same.

    `model`: each message to one member of the group (CLUSTERING) or to all (BROADCASTING). `orderly`: the messages of a queue one after another.
    `start_from`: where a group without an offset starts. `allocator`: how queues are divided among members (allocation.py).

    `workers`: how many handlers may run at once. `batch_size`: messages for each call of a handler with `batch=True`.
    `pull_batch_size`: messages for each pull (brokers return at most 32 by default); `pull_interval`: a pause after each pull.

    A queue is not pulled while more than `queue_threshold` of its messages, or `queue_threshold_mib` MiB, wait here, or, unless orderly, while its oldest
    and newest waiting message are more than `max_span` offsets apart. `topic_threshold` and `topic_threshold_mib` are divided among the queues.

    `post_subscription`: send the expression with each pull. `max_reconsume_times`: how often a message is redelivered before it becomes a dead letter;
    -1 means 16 times, and without limit if orderly. `suspend_time`: how long an orderly queue pauses after a failure. `consume_timeout`: when a message
    is sent back although its handler has not returned. `close_timeout`: how long `close` waits for running handlers.

    `offset_store`: your own store. `offsets_directory`: where broadcasting consumers store their offsets. `hooks`: see ConsumeHook. `trace`: True, or a Trace.
    """

    model: MessageModel = MessageModel.CLUSTERING
    orderly: bool = False
    start_from: StartFrom = StartFrom.LAST
    allocator: Allocator = averagely
    workers: int = 20
    batch_size: int = 1
    pull_batch_size: int = 32
    pull_interval: Duration = 0.0
    queue_threshold: int = 1000
    queue_threshold_mib: int = 100
    topic_threshold: int | None = None
    topic_threshold_mib: int | None = None
    max_span: int = 2000
    post_subscription: bool = False
    max_reconsume_times: int = FOREVER
    suspend_time: Duration = 1.0
    consume_timeout: Duration = 900.0
    close_timeout: Duration = 30.0
    offset_store: OffsetStore | None = None
    offsets_directory: str | os.PathLike[str] | None = None
    hooks: Sequence[ConsumeHook] = ()
    trace: bool | Trace = False

    def __post_init__(self) -> None:
        _check_common(self)
        check_range(self, "workers", 1, 1000)
        check_range(self, "batch_size", 1, 1024)
        check_range(self, "max_reconsume_times", -1, 1 << 31)
        for name, most in (("topic_threshold", 6_553_500), ("topic_threshold_mib", 102_400)):
            if getattr(self, name) is not None:
                check_range(self, name, 1, most)
        if self.pull_interval:
            set_positive_seconds(self, "pull_interval")
        set_positive_seconds(self, "suspend_time", "consume_timeout", "close_timeout")

    @property
    def is_broadcast(self) -> bool:
        """Whether every member consumes all messages."""
        return self.model is MessageModel.BROADCASTING


class LitePullOptions(TypedDict, total=False):
    """The keywords that LitePullConsumer accepts; LitePullSettings describes them."""

    model: MessageModel
    start_from: StartFrom
    allocator: Allocator
    auto_commit: bool
    auto_commit_interval: Duration
    pull_batch_size: int
    total_threshold: int
    queue_threshold: int
    queue_threshold_mib: int
    max_span: int
    poll_timeout: Duration
    topic_check_interval: Duration
    offset_store: OffsetStore | None
    offsets_directory: str | os.PathLike[str] | None


@dataclass(frozen=True, slots=True)
class LitePullSettings:
    """How a LitePullConsumer fetches. `model`, `start_from`, `allocator` and thresholds as in PushSettings; `total_threshold`: over all queues.

    `auto_commit`: polled messages count as consumed at the next poll, and are committed every `auto_commit_interval`. `poll_timeout`: the default
    timeout of `poll`. `topic_check_interval`: how often topics are checked for the listeners of `on_topic_queues_changed`.
    """

    model: MessageModel = MessageModel.CLUSTERING
    start_from: StartFrom = StartFrom.LAST
    allocator: Allocator = averagely
    auto_commit: bool = True
    auto_commit_interval: Duration = 5.0
    pull_batch_size: int = 32
    total_threshold: int = 10_000
    queue_threshold: int = 1000
    queue_threshold_mib: int = 100
    max_span: int = 2000
    poll_timeout: Duration = 5.0
    topic_check_interval: Duration = 30.0
    offset_store: OffsetStore | None = None
    offsets_directory: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        _check_common(self)
        check_range(self, "total_threshold", 1, 1 << 31)
        set_positive_seconds(self, "auto_commit_interval", "poll_timeout", "topic_check_interval")

    @property
    def is_broadcast(self) -> bool:
        """Whether every member consumes all messages."""
        return self.model is MessageModel.BROADCASTING


class PullOptions(TypedDict, total=False):
    """The keywords that PullConsumer accepts; PullSettings describes them."""

    model: MessageModel
    allocator: Allocator
    pull_timeout: Duration
    max_reconsume_times: int
    offset_store: OffsetStore | None
    offsets_directory: str | os.PathLike[str] | None


@dataclass(frozen=True, slots=True)
class PullSettings:
    """How a PullConsumer pulls. `pull_timeout`: for pulls that do not wait for messages; the others as in PushSettings."""

    model: MessageModel = MessageModel.CLUSTERING
    allocator: Allocator = averagely
    pull_timeout: Duration = 10.0
    max_reconsume_times: int = 16
    offset_store: OffsetStore | None = None
    offsets_directory: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, MessageModel):
            raise ConfigError(
                f"model={self.model!r}: expected MessageModel.CLUSTERING or MessageModel.BROADCASTING", "model"
            )
        check_range(self, "max_reconsume_times", -1, 1 << 31)
        set_positive_seconds(self, "pull_timeout")

    @property
    def is_broadcast(self) -> bool:
        """Whether every member consumes all messages."""
        return self.model is MessageModel.BROADCASTING
