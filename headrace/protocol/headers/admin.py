"""Headers of a broker's administration: topics, groups, statistics, settings."""

from typing import ClassVar

from headrace.protocol.headers.command_header import I32, CommandHeader
from headrace.protocol.request_code import RequestCode


class CreateTopicRequestHeader(CommandHeader, frozen=True):
    """UPDATE_AND_CREATE_TOPIC (17). `topic_filter_type` is SINGLE_TAG or MULTI_TAG."""

    CODE: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_TOPIC

    topic: str
    default_topic: str
    read_queue_nums: I32
    write_queue_nums: I32
    perm: I32
    topic_filter_type: str
    topic_sys_flag: I32 = 0
    order: bool = False


class GetTopicConfigRequestHeader(CommandHeader, frozen=True):
    """GET_TOPIC_CONFIG (351), of RocketMQ 5."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_TOPIC_CONFIG

    topic: str


class DeleteTopicRequestHeader(CommandHeader, frozen=True):
    """DELETE_TOPIC_IN_BROKER (215)."""

    CODE: ClassVar[RequestCode] = RequestCode.DELETE_TOPIC_IN_BROKER

    topic: str


class DeleteSubscriptionGroupRequestHeader(CommandHeader, frozen=True):
    """DELETE_SUBSCRIPTIONGROUP (207)."""

    CODE: ClassVar[RequestCode] = RequestCode.DELETE_SUBSCRIPTIONGROUP

    group_name: str
    remove_offset: bool = False


class GetTopicStatsInfoRequestHeader(CommandHeader, frozen=True):
    """GET_TOPIC_STATS_INFO (202)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_TOPIC_STATS_INFO

    topic: str


class GetConsumeStatsRequestHeader(CommandHeader, frozen=True):
    """GET_CONSUME_STATS (208). Without a topic: all topics that the group consumes."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_CONSUME_STATS

    consumer_group: str
    topic: str | None = None


class GetBrokerConsumeStatsRequestHeader(CommandHeader, frozen=True):
    """GET_BROKER_CONSUME_STATS (317)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_BROKER_CONSUME_STATS

    is_order: bool = False


class QueryTopicConsumeByWhoRequestHeader(CommandHeader, frozen=True):
    """QUERY_TOPIC_CONSUME_BY_WHO (300)."""

    CODE: ClassVar[RequestCode] = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO

    topic: str


class QueryConsumeTimeSpanRequestHeader(CommandHeader, frozen=True):
    """QUERY_CONSUME_TIME_SPAN (303)."""

    CODE: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_TIME_SPAN

    topic: str
    group: str


class ViewBrokerStatsDataRequestHeader(CommandHeader, frozen=True):
    """VIEW_BROKER_STATS_DATA (315)."""

    CODE: ClassVar[RequestCode] = RequestCode.VIEW_BROKER_STATS_DATA

    stats_name: str
    stats_key: str


class GetBrokerConfigResponseHeader(CommandHeader, frozen=True):
    """The configuration's DataVersion, as JSON; the configuration is in the body."""

    version: str
