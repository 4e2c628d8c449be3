"""Puller: requests the messages of one queue from a broker (client spec 3.6, 3.7).

A broker without messages holds the request for a while (long polling) if it is asked to. It may also suggest another broker of its name for the next
pull of the queue, a slave if the consumer is far behind; the suggestion is remembered here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headrace.client.cluster.answers import error_of
from headrace.client.cluster.instance import ClientInstance
from headrace.client.cluster.routes import BrokerAddress
from headrace.client.consuming.received_message import Origin, ReceivedMessage, cut_records
from headrace.errors import BrokerNotFound, HeadraceError, RemoteProtocolError
from headrace.model import pull_sys_flag
from headrace.model.message_queue import MessageQueue
from headrace.model.names import MASTER_ID
from headrace.model.subscription import SubscriptionData, is_tag_type
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

PUSH_SUSPEND_MS: Final = 15_000
"""How long a broker holds a pull of a push consumer; RocketMQ's value. It must be below `SUSPENDED_TIMEOUT_MS`."""
PULL_SUSPEND_MS: Final = 20_000
"""The same for other consumers."""
SUSPENDED_TIMEOUT_MS: Final = 30_000
"""How long the client waits for the answer to a pull that may be held."""
AT_ONCE_TIMEOUT_MS: Final = 10_000
"""How long it waits for other answers."""


class PullStatus(Enum):
    """The outcome of a pull."""

    FOUND = "FOUND"
    NO_NEW_MESSAGE = "NO_NEW_MSG"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"
    """The offset is before the queue's first message or after its end; `next_offset` is a valid one."""


_STATUS: Final = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW_MESSAGE,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCHED_MESSAGE,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True)
class PullResult:
    """The outcome of a pull, the next offset, and the queue's bounds. FOUND may contain no messages, if none has one of the tags."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: Sequence[ReceivedMessage] = field(repr=False, default=())


class Puller:
    """Pulls for one group. Queues include the namespace; the messages' topics do not."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._namespace = instance.config.namespace
        self._suggested: dict[MessageQueue, int] = {}

    def forget(self, queue: MessageQueue) -> None:
        """Forgets a queue that is no longer ours."""
        self._suggested.pop(queue, None)

    async def pull(
        self,
        queue: MessageQueue,
        subscription: SubscriptionData,
        offset: int,
        max_messages: int,
        *,
        commit_offset: int = 0,
        suspend_ms: int = 0,
        timeout_ms: int = SUSPENDED_TIMEOUT_MS,
        with_expression: bool = False,
        is_lite: bool = False,
    ) -> PullResult:
        """Pulls once. `suspend_ms`: how long the broker may hold the request; `with_expression`: use the expression in the request, not the heartbeat's.

        `commit_offset`, if above 0, is stored too. Raises BrokerError, BrokerNotFound, RemotingError, RemoteProtocolError.
        """
        target = await self._target(queue)
        sys_flag = pull_sys_flag.build(
            commit_offset=commit_offset > 0 and not target.is_slave,
            suspend=suspend_ms > 0,
            subscription=with_expression,
            lite_pull=is_lite,
        )
        # The most frequent request of a consumer: its fields are written here directly, not by PullMessageRequestHeader.
        ext = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(max_messages),
            "sysFlag": str(sys_flag),
            "commitOffset": str(max(commit_offset, 0)),
            "suspendTimeoutMillis": str(suspend_ms),
            "subVersion": str(subscription.sub_version),
            "expressionType": subscription.expression_type,
            "bname": queue.broker_name,
        }
        if with_expression:
            ext["subscription"] = subscription.sub_string
        answer = await self._instance.request(target.address, create_request(RequestCode.PULL_MESSAGE, ext), timeout_ms)
        return self._result(queue, subscription, answer, target.address)

    async def _target(self, queue: MessageQueue) -> BrokerAddress:
        brokers = self._instance.brokers
        suggested = self._suggested.get(queue, MASTER_ID)
        found = brokers.find(queue.broker_name, suggested)
        if found is None:
            try:
                await self._instance.routes.update(queue.topic)
            except HeadraceError as error:
                raise BrokerNotFound(
                    f"no known address for broker {queue.broker_name}: {error}", queue.broker_name
                ) from error
            found = brokers.find(queue.broker_name, suggested)
        if found is None:
            raise BrokerNotFound(
                f"no known address for broker {queue.broker_name}; check that it is running", queue.broker_name
            )
        return found

    def _result(
        self, queue: MessageQueue, subscription: SubscriptionData, answer: RemotingCommand, address: str
    ) -> PullResult:
        status = _STATUS.get(answer.code)
        if status is None:
            raise error_of(answer, address)
        ext = answer.ext
        try:
            next_offset, suggested = int(ext["nextBeginOffset"]), int(ext["suggestWhichBrokerId"])
            min_offset, max_offset = int(ext["minOffset"]), int(ext["maxOffset"])
        except (KeyError, ValueError) as error:
            what = f"field {error} is missing" if isinstance(error, KeyError) else f"a field is malformed ({error})"
            raise RemoteProtocolError(f"invalid pull response from {address}: {what}: {ext}") from error
        if suggested != MASTER_ID or queue in self._suggested:
            self._suggested[queue] = suggested
        messages: list[ReceivedMessage] = []
        if status is PullStatus.FOUND:
            # compat: RocketMQ reads the end before the messages, and some of these may have been stored since.
            max_offset = max(max_offset, next_offset)
            messages = cut_records(answer.body, Origin(queue, min_offset, max_offset, self._namespace))
            if subscription.tags_set and is_tag_type(subscription.expression_type):
                # Brokers compare only hashes of tags.
                wanted = subscription.tags_set
                messages = [message for message in messages if message.tags in wanted]
        return PullResult(status, next_offset, min_offset, max_offset, messages)
