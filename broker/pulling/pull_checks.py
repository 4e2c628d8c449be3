"""PullChecks: whether a pull is allowed, which messages it wants, and which broker serves the next pull (remoting spec 4.10)."""

import time
from functools import lru_cache

from msgspec import Struct

from broker.clients.clients import ClientTable
from broker.clients.groups import GroupTable
from broker.config import BrokerConfig
from broker.filtering.consumer_filter_table import LimitReached
from broker.filtering.pull_filters import Refused
from broker.pulling.selectors import Selector, Selectors
from broker.topics.topics import TopicTable
from headrace.model import permission, pull_sys_flag
from headrace.model.consumption import MessageModel
from headrace.model.subscription import ALL, TAG, SubscriptionData, is_tag_type
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicConfig
from headrace.protocol.headers.pull import PullMessageRequestHeader
from headrace.protocol.response_code import ResponseCode


class CheckedPull(Struct, frozen=True):
    """The result of the checks. It is valid until a topic, a group, a subscription or an option changes."""

    topic: TopicConfig
    selector: Selector
    corrected_broker: int
    """Id of the broker that a lagging slave suggests for an offset that it does not have."""
    suggested_broker: int
    """Id of the broker for the next pull."""
    slow_broker: int
    """The same for a consumer that is far behind the end of the log."""
    began_ns: int
    """When this evaluation of the pull began (monotonic clock)."""


class PullChecks:
    """Checks pulls against the current tables."""

    def __init__(
        self, config: BrokerConfig, topics: TopicTable, groups: GroupTable, clients: ClientTable, selectors: Selectors
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._selectors = selectors

    def check(self, header: PullMessageRequestHeader, limit_reached: LimitReached) -> CheckedPull | Refused:
        """The checks in RocketMQ's order. A refusal's remark says what to do. `limit_reached` counts limits of the client."""
        began_ns, config = time.monotonic_ns(), self._config
        if not permission.is_readable(config.broker_permission):
            return ResponseCode.NO_PERMISSION, (
                f"the broker {config.broker_name} is not readable (brokerPermission); enable read permission: brokerPermission=6"
            )
        group = self._groups.find(header.consumer_group)
        if group is None:
            return ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, (
                f"the consumer group {header.consumer_group} does not exist and cannot be created by clients "
                "(autoCreateSubscriptionGroup=false); create it first"
            )
        if not group.consume_enable:
            return ResponseCode.NO_PERMISSION, (
                f"the consumer group {group.group_name} is disabled; enable it: consumeEnable=true"
            )
        topic = self._topics.find(header.topic)
        if topic is None:
            return ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist on this broker; create it first"
        if not permission.is_readable(topic.permission):
            return ResponseCode.NO_PERMISSION, (
                f"the topic {topic.name} is not readable (perm); enable read permission: perm=6"
            )
        if not 0 <= header.queue_id < topic.read_queue_count:
            return ResponseCode.SYSTEM_ERROR, (
                f"queueId[{header.queue_id}] is illegal: topic {topic.name} has {topic.read_queue_count} read queues; "
                "fetch its route again"
            )
        if header.sys_flag & pull_sys_flag.SUBSCRIPTION:
            selector = self._select_by_request(header, limit_reached)
        else:
            selector = self._select_by_subscription(header, group)
        if isinstance(selector, tuple):
            return selector
        suggested, slow = group.broker_id, group.which_broker_when_consume_slowly
        if not config.slave_read_enable:
            suggested = slow = 0
        return CheckedPull(topic, selector, group.broker_id, suggested, slow, began_ns)

    def _select_by_request(self, header: PullMessageRequestHeader, limit_reached: LimitReached) -> Selector | Refused:
        """By the expression in the request."""
        expression, expression_type = header.subscription, header.expression_type
        if expression_type in (None, TAG):
            try:
                codes = _codes_of(expression or ALL)
            except ValueError as error:
                return ResponseCode.SUBSCRIPTION_PARSE_FAILED, (
                    f"parse the consumer's subscription failed: {error}; send * for all messages"
                )
            return self._selectors.of_request(header, codes, limit_reached)
        if not expression:
            return ResponseCode.SUBSCRIPTION_PARSE_FAILED, (
                f"parse the consumer's subscription failed: the expression of type {expression_type!r} is empty; send one"
            )
        if expression_type:
            return self._selectors.of_request(header, None, limit_reached)
        # compat: RocketMQ takes an empty type for TAG when matching but never reads its tags, so nothing matches.
        return self._selectors.by_tags(None if expression == ALL else set())

    def _select_by_subscription(
        self, header: PullMessageRequestHeader, group: SubscriptionGroupConfig
    ) -> Selector | Refused:
        """By the subscription in the heartbeats of the group."""
        name = group.group_name
        consumers = self._clients.consumer_group(name)
        if consumers is None:
            return ResponseCode.SUBSCRIPTION_NOT_EXIST, (
                f"the consumer's group info not exist: no member of {name} is registered here; send a heartbeat first"
            )
        if not group.consume_broadcast_enable and consumers.message_model == MessageModel.BROADCASTING:
            return ResponseCode.NO_PERMISSION, (
                f"broadcasting is disabled for the consumer group {name}; enable it: consumeBroadcastEnable=true"
            )
        subscription = consumers.subscriptions.get(header.topic)
        if subscription is None:
            return ResponseCode.SUBSCRIPTION_NOT_EXIST, (
                f"the consumer group {name} does not subscribe to topic {header.topic}; "
                "all its members must have the same subscriptions"
            )
        if subscription.sub_version < header.sub_version:
            return ResponseCode.SUBSCRIPTION_NOT_LATEST, (
                f"the consumer's subscription not latest: the pull of {name} has a newer version; send a heartbeat first"
            )
        is_all = not is_tag_type(subscription.expression_type) or subscription.class_filter_mode
        codes = None if is_all or subscription.sub_string == ALL else set(subscription.code_set)
        return self._selectors.of_subscription(header, subscription, codes)


@lru_cache(maxsize=4096)  # limit: distinct tag lists that clients pull with
def _codes_of(expression: str) -> set[int] | None:
    """Hashes of the tags in an expression, None for all; do not modify. Raises ValueError."""
    return None if expression == ALL else set(SubscriptionData.build("", expression).code_set)
