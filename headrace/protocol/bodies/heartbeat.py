"""Heartbeats: the groups that a client belongs to, and the subscriptions of its consumer groups."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct, field

from headrace.model.consumption import ConsumeFromWhere, ConsumeType, MessageModel
from headrace.model.subscription import SubscriptionData
from headrace.protocol.json_bean import JsonBody


class ProducerData(Struct):
    """A producer group."""

    group_name: str


class ConsumerData(Struct):
    """A consumer group and its subscriptions."""

    group_name: str
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


class HeartbeatData(JsonBody):
    """Body of HEART_BEAT."""

    NAMES: ClassVar[Mapping[str, str]] = {"client_id": "clientID"}

    client_id: str = ""
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)


class CheckClientRequestBody(JsonBody):
    """Body of CHECK_CLIENT_CONFIG: a subscription for the broker to check."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None


class GetConsumerListByGroupResponseBody(JsonBody):
    """Client ids of a group's members, one per connection."""

    consumer_id_list: list[str] = field(default_factory=list)
