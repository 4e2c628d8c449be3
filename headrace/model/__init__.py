"""The model: messages, queues, flags, names, settings. No frames, no I/O."""

from headrace.model import names, permission, properties, pull_sys_flag, sys_flag
from headrace.model.camel_case import camel_case
from headrace.model.consumption import ConsumeFromWhere, ConsumeType, MessageModel
from headrace.model.data_version import DataVersion
from headrace.model.delay_level import DEFAULT_DELAY_LEVELS, parse_delay_levels
from headrace.model.host import Host, decode_host, encode_host, format_host, parse_host
from headrace.model.java_hash import string_hash, tags_code
from headrace.model.message import Message, MessageExt
from headrace.model.message_id import (
    UniqueIdGenerator,
    create_unique_id,
    decode_offset_message_id,
    encode_offset_message_id,
    unique_id_time_ms,
)
from headrace.model.message_queue import MessageQueue
from headrace.model.option import format_value, from_mapping, keys_of, nearest_key, option, parse_value
from headrace.model.properties import decode_properties, encode_properties
from headrace.model.subscription import SubscriptionData
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicConfig, TopicFilterType

__all__ = [
    "DEFAULT_DELAY_LEVELS",
    "ConsumeFromWhere",
    "ConsumeType",
    "DataVersion",
    "Host",
    "Message",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "SubscriptionData",
    "SubscriptionGroupConfig",
    "TopicConfig",
    "TopicFilterType",
    "UniqueIdGenerator",
    "camel_case",
    "create_unique_id",
    "decode_host",
    "decode_offset_message_id",
    "decode_properties",
    "encode_host",
    "encode_offset_message_id",
    "encode_properties",
    "format_host",
    "format_value",
    "from_mapping",
    "keys_of",
    "names",
    "nearest_key",
    "option",
    "parse_delay_levels",
    "parse_host",
    "parse_value",
    "permission",
    "properties",
    "pull_sys_flag",
    "string_hash",
    "sys_flag",
    "tags_code",
    "unique_id_time_ms",
]
