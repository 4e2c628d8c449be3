"""Headers about clients: their connections, and requests of brokers to them."""

from collections.abc import Mapping
from typing import ClassVar

from headrace.protocol.headers.command_header import CommandHeader
from headrace.protocol.request_code import RequestCode


class UnregisterClientRequestHeader(CommandHeader, frozen=True):
    """UNREGISTER_CLIENT (35)."""

    CODE: ClassVar[RequestCode] = RequestCode.UNREGISTER_CLIENT
    NAMES: ClassVar[Mapping[str, str]] = {"client_id": "clientID"}

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequestHeader(CommandHeader, frozen=True):
    """GET_CONSUMER_LIST_BY_GROUP (38)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_LIST_BY_GROUP

    consumer_group: str


class NotifyConsumerIdsChangedRequestHeader(CommandHeader, frozen=True):
    """NOTIFY_CONSUMER_IDS_CHANGED (40), sent by brokers, without a response."""

    CODE: ClassVar[RequestCode] = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

    consumer_group: str


class GetConsumerConnectionListRequestHeader(CommandHeader, frozen=True):
    """GET_CONSUMER_CONNECTION_LIST (203)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_CONNECTION_LIST

    consumer_group: str


class GetProducerConnectionListRequestHeader(CommandHeader, frozen=True):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_PRODUCER_CONNECTION_LIST

    producer_group: str


class GetConsumerRunningInfoRequestHeader(CommandHeader, frozen=True):
    """GET_CONSUMER_RUNNING_INFO (307), to a broker and on to the client."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_RUNNING_INFO

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequestHeader(CommandHeader, frozen=True):
    """CONSUME_MESSAGE_DIRECTLY (309), to a broker (with an offset message id) and on to the client (with the message)."""

    CODE: ClassVar[RequestCode] = RequestCode.CONSUME_MESSAGE_DIRECTLY

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
