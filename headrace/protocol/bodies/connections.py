"""Connected members of consumer groups and producer groups."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct, field

from headrace.model.consumption import ConsumeFromWhere, ConsumeType, MessageModel
from headrace.model.subscription import SubscriptionData
from headrace.protocol.json_bean import JsonBody
from headrace.protocol.language import LanguageCode


class Connection(Struct):
    """A client's connection; its address is `ip:port`."""

    client_id: str | None = None
    client_addr: str | None = None
    language: LanguageCode = LanguageCode.OTHER
    version: int = 0


class ConsumerConnection(JsonBody):
    """Answer to GET_CONSUMER_CONNECTION_LIST."""

    connection_set: list[Connection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


class ProducerConnection(JsonBody):
    """Answer to GET_PRODUCER_CONNECTION_LIST."""

    connection_set: list[Connection] = field(default_factory=list)


class ProducerInfo(Struct):
    """A producer's connection; its address is `/ip:port`, as Java writes it."""

    NAMES: ClassVar[Mapping[str, str]] = {"remote_ip": "remoteIP"}

    client_id: str | None = None
    remote_ip: str | None = None
    language: LanguageCode = LanguageCode.OTHER
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTableInfo(JsonBody):
    """Answer to GET_ALL_PRODUCER_INFO, by group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)
