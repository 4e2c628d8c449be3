"""PullFilters: finds the filter of a pull, or the reason why the pull is refused (remoting spec 4.10)."""

from msgspec import Struct

from broker.config import BrokerConfig
from broker.filtering.consumer_filter_table import (
    MAX_FILTERS,
    ConsumerFilterTable,
    LimitReached,
    compile_within_limits,
    ignore_limit,
)
from broker.filtering.filter_functions import FilterFunctions
from headrace.model.names import RETRY_PREFIX
from headrace.model.properties import RETRY_TOPIC
from headrace.model.subscription import PYTHON, SubscriptionData, is_tag_type
from headrace.protocol.record import decode_record
from headrace.protocol.response_code import ResponseCode
from store.consume_queue.ext_reader import ExtUnit
from store.filter.message_filter import ExpressionFilter, MessageFilter
from store.filter.program import Program
from store.filter.python.functions import FilterFunction
from store.filter.refusal import Refusal

Refused = tuple[ResponseCode, str]
"""The answer to a request that asks for a filter which cannot be had."""


class RetryFilter(Struct, frozen=True):
    """With `filterSupportRetry`: a retried message passes if its first topic's filter lets it (store spec 13.5)."""

    table: ConsumerFilterTable
    group: str

    @property
    def reads_units(self) -> bool:
        """Entries of retry topics say nothing."""
        return False

    def match_entry(self, tags_code: int, unit: ExtUnit | None) -> bool:  # noqa: ARG002  (as all filters)
        """Always, as they say nothing."""
        return True

    def match_record(self, view: memoryview, position: int) -> bool:
        """Whether the filter that the group has for the message's first topic lets it pass; without one it does."""
        first_topic = decode_record(view, position).properties.get(RETRY_TOPIC, "")
        found = self.table.filter_of(first_topic, self.group)
        return found is None or found.match_record(view, position)


class PullFilters:
    """Gives pulls their filters, or says why a pull is refused (remoting spec 4.10)."""

    def __init__(
        self, table: ConsumerFilterTable, config: BrokerConfig, functions: FilterFunctions | None = None
    ) -> None:
        """`functions`: those that subscriptions of type PYTHON name."""
        self.table = table
        self._config = config
        self._functions = functions

    def of_request(
        self,
        topic: str,
        expression: str | None,
        expression_type: str | None,
        limit_reached: LimitReached = ignore_limit,
    ) -> MessageFilter | FilterFunction | Refused | None:
        """The filter of a pull with its own expression; None: only its tags. `topic` may be a retry topic."""
        if is_tag_type(expression_type):
            return self._of_retries(topic)
        assert expression_type
        if not expression:
            return ResponseCode.SUBSCRIPTION_PARSE_FAILED, (
                f"parse the consumer's subscription failed: the expression of type {expression_type!r} is empty; send one"
            )
        if expression_type == PYTHON:
            return self._function(expression)
        refused = self._not_enabled(expression_type)
        if refused is not None:
            return refused
        compiled = compile_within_limits(expression, expression_type, self._config, limit_reached)
        if isinstance(compiled, Refusal):
            return _not_compiled(compiled)
        return self._of_retries(topic) or ExpressionFilter(compiled)

    def of_subscription(
        self, group: str, subscription: SubscriptionData, request_version: int
    ) -> MessageFilter | FilterFunction | Refused | None:
        """For a pull by what the group's heartbeats have said; None: none but its tags."""
        topic = subscription.topic
        if is_tag_type(subscription.expression_type):
            return self._of_retries(topic)
        if subscription.expression_type == PYTHON:
            return self._function(subscription.sub_string)
        data = self.table.find(topic, group)
        if data is None:
            return ResponseCode.FILTER_DATA_NOT_EXIST, (
                f"the broker's consumer filter data is not exist: group {group} has none for topic {topic}; "
                f"check that its expression is valid and the broker's log for {MAX_FILTERS}, and send a heartbeat first"
            )
        if data.client_version < request_version:
            return ResponseCode.FILTER_DATA_NOT_LATEST, (
                f"the consumer's consumer filter data not latest: the pull of {group} has a newer version; send a heartbeat first"
            )
        refused = self._not_enabled(subscription.expression_type)
        if refused is not None:
            return refused
        found = self.table.filter_of(topic, group)
        if found is None:  # a file of RocketMQ's may hold what is beyond our limits
            return ResponseCode.SUBSCRIPTION_PARSE_FAILED, (
                f"parse the consumer's subscription failed: the filter of group {group} for topic {topic} does not compile here"
            )
        return self._of_retries(topic) or found

    def check(
        self, subscription: SubscriptionData | None, limit_reached: LimitReached = ignore_limit
    ) -> Refused | None:
        """Whether the broker can serve a subscription: the answer to CHECK_CLIENT_CONFIG (remoting spec 4.18)."""
        if subscription is None or is_tag_type(subscription.expression_type):
            return None
        if subscription.expression_type == PYTHON:
            found = self._function(subscription.sub_string)
            return found if isinstance(found, tuple) else None
        refused = self._not_enabled(subscription.expression_type)
        if refused is not None:
            return refused
        compiled = compile_within_limits(
            subscription.sub_string, subscription.expression_type, self._config, limit_reached
        )
        return None if isinstance(compiled, Program) else _not_compiled(compiled)

    def _function(self, name: str) -> FilterFunction | Refused:
        if self._functions is None:
            return ResponseCode.SYSTEM_ERROR, (
                f"cannot run {name}: filter functions are disabled; subscribe by tags, or enable them (pythonFilterWorkers)"
            )
        found = self._functions.find(name)
        return (ResponseCode.SYSTEM_ERROR, found) if isinstance(found, str) else found

    def _of_retries(self, topic: str) -> RetryFilter | None:
        if not self._config.filter_support_retry or not topic.startswith(RETRY_PREFIX):
            return None
        return RetryFilter(self.table, topic.removeprefix(RETRY_PREFIX))

    def _not_enabled(self, expression_type: str) -> Refused | None:
        if self._config.enable_property_filter:
            return None
        return ResponseCode.SYSTEM_ERROR, (
            f"the broker does not support consumer to filter message by {expression_type}; "
            "subscribe by tags, or enable it (enablePropertyFilter=true)"
        )


def _not_compiled(refusal: Refusal) -> Refused:
    return ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {refusal}"
