"""What an instance knows of the producers and consumers that share it: three small protocols.

A consumer that registers with `ClientInstance.register_consumer` must have

    group                 its group, with the namespace
    subscribed_topics()   topics, with the namespace, whose routes are to be polled (its retry topic among them)
    heartbeat()           its part of the heartbeat, as it is now
    rebalance_soon()      members of some group have changed: rebalance when you can (called often; must only set an event)
    persist_offsets()     every `persist_offsets` seconds, from the instance's timer
    reset_offsets(…)      RESET_CONSUMER_CLIENT_OFFSET; do what takes long in a task (`instance.start_task`)
    offsets(topic)        for GET_CONSUMER_STATUS_FROM_CLIENT
    running_info(…)       for GET_CONSUMER_RUNNING_INFO
    consume_directly(…)   for CONSUME_MESSAGE_DIRECTLY

All are called in the instance's loop. Topics in what an instance hands over have the namespace; taking it away is the member's part.
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
        """The topics whose routes are to be polled."""

    def heartbeat(self) -> ConsumerData:
        """The group's part of the heartbeat."""

    def rebalance_soon(self) -> None:
        """Wakes the consumer's rebalancing."""

    async def persist_offsets(self) -> None:
        """Stores the offsets consumed so far."""

    async def reset_offsets(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        """Goes on at other offsets. Consumers that are no push consumers ignore it."""

    def offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets held in memory, of one topic, or of all if it is empty."""

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """What the consumer tells about itself."""

    async def consume_directly(self, message: MessageExt, broker_name: str | None) -> ConsumeMessageDirectlyResult:
        """Runs the handler with one message, now, and says how that went."""


@dataclass(frozen=True, slots=True)
class TransactionCheck:
    """A broker asks what has become of a half message. The answer goes back on the connection on which it asked."""

    message: MessageExt
    header: CheckTransactionStateRequestHeader
    connection: Connection


class ProducerMember(Protocol):
    """A producer, as its instance sees it."""

    @property
    def group(self) -> str:
        """The group, with the namespace."""

    def publish_topics(self) -> Collection[str]:
        """The topics whose routes are to be polled."""

    def check_transaction(self, check: TransactionCheck) -> None:
        """Takes a check over; must not block."""
