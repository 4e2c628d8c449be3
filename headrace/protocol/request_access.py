"""Who may send each request of broker and name server, unless accounts determine it (docs/operations/security.md).

A test fails when a server handles a request that is not in this table.
"""

import enum
from collections.abc import Mapping
from typing import Final

from headrace.protocol.request_code import RequestCode as Code


class Access(enum.Enum):
    """The kind of a request, which determines who may send it."""

    CLIENT = "client"
    """Sent by producers and consumers."""
    READ = "read"
    """Sent by tools; changes nothing."""
    ADMIN = "admin"
    """Changes the server, its data or the addresses that clients use: only for administrators, except on a loopback address."""


_CLIENT: Final = (
    Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2,
    Code.CONSUMER_SEND_MSG_BACK, Code.END_TRANSACTION, Code.RECALL_MESSAGE, Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE,
    Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET,
    Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET, Code.GET_EARLIEST_MSG_STORETIME,
    Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.GET_CONSUMER_LIST_BY_GROUP, Code.CHECK_CLIENT_CONFIG, Code.LOCK_BATCH_MQ,
    Code.UNLOCK_BATCH_MQ,
    # name server
    Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE,
)  # fmt: skip
_READ: Final = (
    Code.GET_ALL_TOPIC_CONFIG, Code.GET_TOPIC_CONFIG, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET,
    Code.QUERY_CORRECTION_OFFSET, Code.GET_BROKER_CONFIG, Code.VIEW_BROKER_STATS_DATA, Code.GET_BROKER_RUNTIME_INFO,
    Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUME_STATS, Code.GET_BROKER_CONSUME_STATS, Code.QUERY_CONSUME_TIME_SPAN,
    Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_ALL_PRODUCER_INFO,
    Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.GET_CONSUMER_RUNNING_INFO, Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    Code.QUERY_CONSUME_QUEUE, Code.GET_BROKER_CLUSTER_ACL_INFO,
    # name server
    Code.GET_BROKER_CLUSTER_INFO, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_TOPICS_BY_CLUSTER,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, Code.GET_NAMESRV_CONFIG,
)  # fmt: skip
_ADMIN: Final = (
    Code.UPDATE_BROKER_CONFIG, Code.UPDATE_AND_CREATE_TOPIC, Code.DELETE_TOPIC_IN_BROKER,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP, Code.CLONE_GROUP_OFFSET,
    Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.RESUME_CHECK_HALF_MESSAGE, Code.CONSUME_MESSAGE_DIRECTLY,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC, Code.DELETE_EXPIRED_COMMITLOG,
    Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.DELETE_ACL_CONFIG, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    Code.GET_BROKER_CLUSTER_ACL_CONFIG,  # it changes nothing, but shows secret keys
    # name server; a broker that registers decides where producers send
    Code.UPDATE_NAMESRV_CONFIG, Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.REGISTER_BROKER, Code.UNREGISTER_BROKER,
    Code.QUERY_DATA_VERSION, Code.DELETE_TOPIC_IN_NAMESRV, Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER,
)  # fmt: skip

ACCESS: Final[Mapping[Code, Access]] = {
    **dict.fromkeys(_CLIENT, Access.CLIENT),
    **dict.fromkeys(_READ, Access.READ),
    **dict.fromkeys(_ADMIN, Access.ADMIN),
}

ADMIN_CODES: Final = frozenset(int(code) for code in _ADMIN)
"""The requests that only administrators may send."""
