"""Consumer: the base class of push, lite pull and pull consumers: a group, subscriptions, offsets, and what the instance calls.

Users give and see names without the namespace; inside, topics and queues include it.
"""

import asyncio
import contextlib
import logging
import os
import platform
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection

from headrace.client.cluster.instance import ClientInstance
from headrace.client.cluster.lifecycle import ClientObject
from headrace.client.consuming.offset_file import LocalOffsets, offset_directory
from headrace.client.consuming.offset_store import GivenOffsets, Offsets, OffsetStore, RemoteOffsets
from headrace.client.consuming.rebalance import Rebalance
from headrace.client.consuming.stacks import stacks
from headrace.client.consuming.subscriptions import Subscriptions
from headrace.client.durations import now_ms
from headrace.client.namespace import unwrap, wrap
from headrace.client.settings import ConfigLike, check_group
from headrace.errors import BrokerError, ConfigError, HeadraceError, RemotingError
from headrace.model import names
from headrace.model.consumption import ConsumeFromWhere, ConsumeType, MessageModel
from headrace.model.message import MessageExt
from headrace.model.message_queue import MessageQueue
from headrace.model.subscription import SubscriptionData, is_tag_type
from headrace.protocol.bodies import (
    CheckClientRequestBody,
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumerRunningInfo,
)
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode

logger = logging.getLogger(__name__)


class Consumer(ClientObject):
    """A member of a consumer group. See PushConsumer, LitePullConsumer and PullConsumer."""

    def __init__(self, group: str, config: ConfigLike, model: MessageModel) -> None:
        super().__init__(config)
        check_group(group, names.DEFAULT_CONSUMER_GROUP)
        self._namespace = self._config.namespace
        self._group = wrap(self._namespace, group)
        self._model = model
        self._subscriptions = Subscriptions()
        self._store: Offsets | None = None
        self._rebalance: Rebalance | None = None
        self._started_ms = 0
        self._introducing = asyncio.Lock()
        self._introduced_at = 0.0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._group}>"

    @property
    def group(self) -> str:
        """The consumer group, with the namespace."""
        return self._group

    @property
    def _is_broadcast(self) -> bool:
        return self._model is MessageModel.BROADCASTING

    # -- life -------------------------------------------------------------------------------------------------------------

    async def _open(self) -> ClientInstance:
        # compat: a broadcasting consumer keeps one client id, because it names the folder of its offsets.
        return await ClientInstance.open(self._config, rename=not self._is_broadcast)

    async def _open_store(
        self, instance: ClientInstance, given: OffsetStore | None, directory: str | os.PathLike[str] | None
    ) -> Offsets:
        store: Offsets
        if given is not None:
            store = GivenOffsets(given)
        elif self._is_broadcast:
            store = LocalOffsets(offset_directory(directory), instance.client_id, self._group)
        else:
            store = RemoteOffsets(instance, self._group)
        await store.load()
        self._store = store
        self._started_ms = now_ms()
        return store

    @contextlib.asynccontextmanager
    async def _unregistered_on_failure(self, instance: ClientInstance) -> AsyncIterator[None]:
        """Wraps what may fail after the registration: if it does, the consumer is removed from the instance, which others may share."""
        try:
            yield
        except BaseException:
            if self._rebalance is not None:
                await self._rebalance.close()
            await instance.unregister_consumer(self._group)
            raise

    async def _introduce(self, instance: ClientInstance) -> None:
        """Gets the topics' routes, has brokers check expressions, sends a heartbeat. Raises ConfigError if an expression is rejected.

        Servers that are down are not an error: they are contacted again later.
        """
        await instance.routes.poll(self._subscriptions.topics())
        for subscription in self._subscriptions.all():
            if not is_tag_type(subscription.expression_type):
                await self._check_expression(instance, subscription)
        await instance.send_heartbeat()

    async def _check_expression(self, instance: ClientInstance, subscription: SubscriptionData) -> None:
        address = instance.routes.address_for(subscription.topic)
        if address is None:
            return
        body = CheckClientRequestBody(instance.client_id, self._group, subscription).encode()
        try:
            await instance.invoke(address, create_request(RequestCode.CHECK_CLIENT_CONFIG, None, body))
        except BrokerError as error:
            text = (
                f"the broker rejects the expression {subscription.sub_string!r} of {subscription.topic}: {error.remark}"
            )
            raise ConfigError(text, "expression") from error
        except RemotingError:
            pass

    async def _subscribed(self) -> None:
        """Registers a changed subscription of a running consumer: brokers must know it before the next pull."""
        instance = self._instance
        try:
            await self._introduce(instance)
        except HeadraceError as error:
            self._subscription_failed(error)
        self.rebalance_soon()

    async def _introduce_anew(self) -> None:
        """Sends a heartbeat because a broker does not know the current subscription. Concurrent calls share one heartbeat."""
        wanted_at = time.monotonic()
        async with self._introducing:
            if self._introduced_at < wanted_at:
                await self._instance.send_heartbeat()
                self._introduced_at = time.monotonic()

    def _subscription_failed(self, error: HeadraceError) -> None:
        """Called if an expression is rejected while the consumer runs."""

    # -- names ------------------------------------------------------------------------------------------------------------

    def _wrapped(self, queue: MessageQueue) -> MessageQueue:
        if not self._namespace:
            return queue
        return MessageQueue(wrap(self._namespace, queue.topic), queue.broker_name, queue.queue_id)

    def _unwrapped(self, queue: MessageQueue) -> MessageQueue:
        if not self._namespace:
            return queue
        return MessageQueue(unwrap(self._namespace, queue.topic), queue.broker_name, queue.queue_id)

    # -- what its instance asks (members.ConsumerMember) ------------------------------------------------------------------

    def subscribed_topics(self) -> Collection[str]:
        """The topics whose routes are polled."""
        return self._subscriptions.topics()

    def heartbeat(self) -> ConsumerData:
        """The group's part of the heartbeat."""
        return ConsumerData(
            self._group,
            self._consume_type,
            self._model,
            self._consume_from_where,
            self._subscriptions.all(),
            self._config.unit_mode,
        )

    def rebalance_soon(self) -> None:
        """Wakes the rebalancing."""
        if self._rebalance is not None:
            self._rebalance.soon()

    async def persist_offsets(self) -> None:
        """Stores the offsets consumed so far. A timer calls it regularly; call it to store them now."""
        if self._store is not None:
            await self._store.persist(self._queues_held())

    async def _persist_quietly(self) -> None:
        try:
            await self.persist_offsets()
        except (HeadraceError, OSError) as error:
            logger.warning("offsets not stored group=%s error=%r", self._group, str(error))

    async def reset_offsets(self, topic: str, offsets: dict[MessageQueue, int]) -> None:
        """Does nothing: only push consumers can be reset."""

    def offsets(self, topic: str = "") -> dict[MessageQueue, int]:
        """Returns the offsets in memory, of one topic or of all, with the namespace."""
        return {} if self._store is None else self._store.offsets(topic)

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """Returns the runtime information for administration tools."""
        return ConsumerRunningInfo(
            properties=self._properties(),
            subscription_set=self._subscriptions.all(),
            jstack=stacks() if with_stacks else None,
        )

    async def consume_directly(self, message: MessageExt, broker_name: str | None) -> ConsumeMessageDirectlyResult:  # noqa: ARG002
        """Raises ConfigError: only push consumers have handlers."""
        raise ConfigError(
            f"the consumer of group {self._group} has no handler; only a push consumer can consume a single message on request"
        )

    def _properties(self) -> dict[str, str]:
        # compat: tools read the first four; the names are RocketMQ's.
        return {
            "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in self._config.name_server_list),
            "PROP_CONSUME_TYPE": self._consume_type.value,
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            "PROP_CLIENT_VERSION": "V4_9_8",
            "PROP_CONSUMEORDERLY": "false",
            "PROP_THREADPOOL_CORE_SIZE": "0",
            "consumerGroup": self._group,
            "messageModel": self._model.value,
            "consumeFromWhere": self._consume_from_where.value,
            "unitMode": str(self._config.unit_mode).lower(),
            "client": f"headrace, Python {platform.python_version()}",
        }

    @property
    @abstractmethod
    def _consume_type(self) -> ConsumeType:
        """Whether the program pulls."""

    @property
    def _consume_from_where(self) -> ConsumeFromWhere:
        return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET

    @abstractmethod
    def _queues_held(self) -> Collection[MessageQueue]:
        """The queues whose offsets this consumer stores."""
