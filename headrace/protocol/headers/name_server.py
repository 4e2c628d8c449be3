"""Headers of requests to a name server."""

from typing import ClassVar

from headrace.protocol.headers.command_header import I32, I64, CommandHeader
from headrace.protocol.request_code import RequestCode


class RegisterBrokerRequestHeader(CommandHeader, frozen=True):
    """REGISTER_BROKER (103). With `body_crc32` 0 the body is not checked."""

    CODE: ClassVar[RequestCode] = RequestCode.REGISTER_BROKER

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: I64
    compressed: bool = False
    body_crc32: I32 = 0


class RegisterBrokerResponseHeader(CommandHeader, frozen=True):
    """Response to a slave: its master's address."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerRequestHeader(CommandHeader, frozen=True):
    """UNREGISTER_BROKER (104)."""

    CODE: ClassVar[RequestCode] = RequestCode.UNREGISTER_BROKER

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: I64


class QueryDataVersionRequestHeader(CommandHeader, frozen=True):
    """QUERY_DATA_VERSION (322)."""

    CODE: ClassVar[RequestCode] = RequestCode.QUERY_DATA_VERSION

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: I64


class QueryDataVersionResponseHeader(CommandHeader, frozen=True):
    """Response: whether the name server has a different version."""

    changed: bool


class GetRouteInfoRequestHeader(CommandHeader, frozen=True):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_ROUTEINFO_BY_TOPIC

    topic: str
    accept_standard_json_only: bool | None = None


class GetTopicsByClusterRequestHeader(CommandHeader, frozen=True):
    """GET_TOPICS_BY_CLUSTER (224)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_TOPICS_BY_CLUSTER

    cluster: str


class PutKvConfigRequestHeader(CommandHeader, frozen=True):
    """PUT_KV_CONFIG (100). A missing value is stored as null."""

    CODE: ClassVar[RequestCode] = RequestCode.PUT_KV_CONFIG

    namespace: str
    key: str
    value: str | None = None


class GetKvConfigRequestHeader(CommandHeader, frozen=True):
    """GET_KV_CONFIG (101)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_KV_CONFIG

    namespace: str
    key: str


class GetKvConfigResponseHeader(CommandHeader, frozen=True):
    """The value."""

    value: str | None = None


class DeleteKvConfigRequestHeader(CommandHeader, frozen=True):
    """DELETE_KV_CONFIG (102)."""

    CODE: ClassVar[RequestCode] = RequestCode.DELETE_KV_CONFIG

    namespace: str
    key: str


class GetKvListByNamespaceRequestHeader(CommandHeader, frozen=True):
    """GET_KVLIST_BY_NAMESPACE (219)."""

    CODE: ClassVar[RequestCode] = RequestCode.GET_KVLIST_BY_NAMESPACE

    namespace: str


class WipeWritePermOfBrokerRequestHeader(CommandHeader, frozen=True):
    """WIPE_WRITE_PERM_OF_BROKER (205)."""

    CODE: ClassVar[RequestCode] = RequestCode.WIPE_WRITE_PERM_OF_BROKER

    broker_name: str


class WipeWritePermOfBrokerResponseHeader(CommandHeader, frozen=True):
    """How many topics the broker has."""

    wipe_topic_count: I32


class AddWritePermOfBrokerRequestHeader(CommandHeader, frozen=True):
    """ADD_WRITE_PERM_OF_BROKER (327)."""

    CODE: ClassVar[RequestCode] = RequestCode.ADD_WRITE_PERM_OF_BROKER

    broker_name: str


class AddWritePermOfBrokerResponseHeader(CommandHeader, frozen=True):
    """How many topics the broker has."""

    add_topic_count: I32


class DeleteTopicFromNameServerRequestHeader(CommandHeader, frozen=True):
    """DELETE_TOPIC_IN_NAMESRV (216). Without a cluster: everywhere."""

    CODE: ClassVar[RequestCode] = RequestCode.DELETE_TOPIC_IN_NAMESRV

    topic: str
    cluster_name: str | None = None
