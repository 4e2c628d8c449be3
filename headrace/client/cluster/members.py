"""The producers and consumers that share an instance, as it sees them: two protocols.

A consumer that registers with `ClientInstance.register_consumer` must implement

    group                 its group, with the namespace
    subscribed_topics()   topics, with the namespace, whose routes are polled (including its retry topic)
    heartbeat()           its part of the heartbeat
    rebalance_soon()      the members of some group have changed: wake the rebalancing (called often; must only set an event)
    persist_offsets()     called every `persist_offsets` seconds
    reset_offsets(…)      RESET_CONSUMER_CLIENT_OFFSET; run long work in a task (`instance.start_task`)
    offsets(topic)        for GET_CONSUMER_STATUS_FROM_CLIENT
    running_info(…)       for GET_CONSUMER_RUNNING_INFO
    consume_directly(…)   for CONSUME_MESSAGE_DIRECTLY

All are called in the instance's loop. Topics that an instance passes include the namespace; the member removes it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from headrace.model.message import MessageExt
from headrace.model.message_queue import MessageQueue
from headrace.protocol.bodies import ConsumeMessageDirectlyResult, ConsumerData, ConsumerRunningInfo
from headrace.protocol.headers import CheckTransactionStateRequestHeader
from headrace.remoting.connection import Connection


class ConsumerMember(Protocol):
    """A consumer, as its instance sees it."""

    @property
    def group(self) -> str:
        """The group, with the namespace."""

    def subscribed_topics(self) -> Collection[str]:
        """The topics whose routes are polled."""

    def heartbeat(self) -> ConsumerData:
        """The group's part of the heartbeat."""

    def rebalance_soon(self) -> None:
        """Wakes the rebalancing."""

    async def persist_offsets(self) -> None:
        """Stores the offsets consumed so far."""

    async def reset_offsets(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        """Continues at other offsets. Only push consumers support it."""

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets in memory of one topic, or of all if it is empty."""

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """The consumer's runtime information."""

    async def consume_directly(self, message: MessageExt, broker_name: str | None) -> ConsumeMessageDirectlyResult:
        """Runs the handler for one message now, and returns the result."""


@dataclass(frozen=True, slots=True)
class TransactionCheck:
    """A broker's question about the outcome of a half message. The answer is sent on the same connection."""

    message: MessageExt
    header: CheckTransactionStateRequestHeader
    connection: Connection


class ProducerMember(Protocol):
    """A producer, as its instance sees it."""

    @property
    def group(self) -> str:
        """The group, with the namespace."""

    def publish_topics(self) -> Collection[str]:
        """The topics whose routes are polled."""

    def check_transaction(self, check: TransactionCheck) -> None:
        """Accepts a check; must not block."""
