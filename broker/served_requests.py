"""The request codes that the broker serves, with their modules, and those that it does not serve.

From this comes docs/reference/request-codes.md (`broker.manual`). A test holds the rows against the handlers: a code that is handled and not in
`SERVED`, or in it and not handled, fails. Whatever is in none of the tables' served rows is answered with code 3, `request type … not supported`.
"""

from collections.abc import Mapping
from typing import Final

from headrace.protocol.request_code import RequestCode as Code

SERVED: Final[Mapping[Code, str]] = {
    Code.SEND_MESSAGE: "broker.sending.send_processor",
    Code.SEND_MESSAGE_V2: "broker.sending.send_processor",
    Code.SEND_BATCH_MESSAGE: "broker.sending.send_processor",
    Code.CONSUMER_SEND_MSG_BACK: "broker.sending.send_back_processor",
    Code.END_TRANSACTION: "broker.transactions.end_transaction_processor",
    Code.RESUME_CHECK_HALF_MESSAGE: "broker.transactions.end_transaction_processor",
    Code.RECALL_MESSAGE: "broker.timers.recall_processor",
    Code.SEND_REPLY_MESSAGE: "broker.sending.reply_processor",
    Code.SEND_REPLY_MESSAGE_V2: "broker.sending.reply_processor",
    Code.PULL_MESSAGE: "broker.pulling.pull_processor",
    Code.LITE_PULL_MESSAGE: "broker.pulling.pull_processor",
    Code.QUERY_MESSAGE: "broker.pulling.query_processor",
    Code.VIEW_MESSAGE_BY_ID: "broker.pulling.query_processor",
    Code.QUERY_CONSUMER_OFFSET: "broker.clients.offset_processor",
    Code.UPDATE_CONSUMER_OFFSET: "broker.clients.offset_processor",
    Code.SEARCH_OFFSET_BY_TIMESTAMP: "broker.clients.offset_processor",
    Code.GET_MAX_OFFSET: "broker.clients.offset_processor",
    Code.GET_MIN_OFFSET: "broker.clients.offset_processor",
    Code.GET_EARLIEST_MSG_STORETIME: "broker.clients.offset_processor",
    Code.HEART_BEAT: "broker.clients.client_processor",
    Code.UNREGISTER_CLIENT: "broker.clients.client_processor",
    Code.GET_CONSUMER_LIST_BY_GROUP: "broker.clients.client_processor",
    Code.CHECK_CLIENT_CONFIG: "broker.clients.client_processor",
    Code.LOCK_BATCH_MQ: "broker.clients.lock_processor",
    Code.UNLOCK_BATCH_MQ: "broker.clients.lock_processor",
    Code.UPDATE_AND_CREATE_TOPIC: "broker.admin.topic_admin",
    Code.DELETE_TOPIC_IN_BROKER: "broker.admin.topic_admin",
    Code.GET_ALL_TOPIC_CONFIG: "broker.admin.topic_admin",
    Code.GET_TOPIC_CONFIG: "broker.admin.topic_admin",
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: "broker.admin.topic_admin",
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "broker.admin.group_admin",
    Code.DELETE_SUBSCRIPTIONGROUP: "broker.admin.group_admin",
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "broker.admin.group_admin",
    Code.GET_ALL_CONSUMER_OFFSET: "broker.admin.offset_admin",
    Code.GET_ALL_DELAY_OFFSET: "broker.admin.offset_admin",
    Code.QUERY_CORRECTION_OFFSET: "broker.admin.offset_admin",
    Code.CLONE_GROUP_OFFSET: "broker.admin.offset_admin",
    Code.UPDATE_BROKER_CONFIG: "broker.admin.config_admin",
    Code.GET_BROKER_CONFIG: "broker.admin.config_admin",
    Code.VIEW_BROKER_STATS_DATA: "broker.admin.stats_admin",
    Code.GET_BROKER_RUNTIME_INFO: "broker.admin.runtime_info",
    Code.GET_TOPIC_STATS_INFO: "broker.admin.consume_progress",
    Code.GET_CONSUME_STATS: "broker.admin.consume_progress",
    Code.GET_BROKER_CONSUME_STATS: "broker.admin.consume_progress",
    Code.QUERY_CONSUME_TIME_SPAN: "broker.admin.consume_progress",
    Code.GET_CONSUMER_CONNECTION_LIST: "broker.admin.client_admin",
    Code.GET_PRODUCER_CONNECTION_LIST: "broker.admin.client_admin",
    Code.GET_ALL_PRODUCER_INFO: "broker.admin.client_admin",
    Code.QUERY_TOPIC_CONSUME_BY_WHO: "broker.admin.client_admin",
    Code.GET_CONSUMER_RUNNING_INFO: "broker.admin.relays",
    Code.CONSUME_MESSAGE_DIRECTLY: "broker.admin.relays",
    Code.INVOKE_BROKER_TO_RESET_OFFSET: "broker.admin.relays",
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: "broker.admin.relays",
    Code.QUERY_CONSUME_QUEUE: "broker.admin.consume_queue_admin",
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: "broker.admin.cleaning_admin",
    Code.CLEAN_UNUSED_TOPIC: "broker.admin.cleaning_admin",
    Code.DELETE_EXPIRED_COMMITLOG: "broker.admin.cleaning_admin",
    Code.UPDATE_AND_CREATE_ACL_CONFIG: "broker.admin.acl_admin",
    Code.DELETE_ACL_CONFIG: "broker.admin.acl_admin",
    Code.GET_BROKER_CLUSTER_ACL_INFO: "broker.admin.acl_admin",
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: "broker.admin.acl_admin",
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: "broker.admin.acl_admin",
}
"""The requests that the broker serves, with their modules. PULL_MESSAGE and LITE_PULL_MESSAGE only on the main port."""

NAME_SERVER: Final = frozenset({
    Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE, Code.REGISTER_BROKER,
    Code.UNREGISTER_BROKER, Code.QUERY_DATA_VERSION, Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO,
    Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    Code.DELETE_TOPIC_IN_NAMESRV, Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG,
})  # fmt: skip
"""Requests to a name server; a broker answers them with code 3."""

TO_CLIENTS: Final = frozenset({
    Code.CHECK_TRANSACTION_STATE, Code.NOTIFY_CONSUMER_IDS_CHANGED, Code.RESET_CONSUMER_CLIENT_OFFSET,
    Code.GET_CONSUMER_STATUS_FROM_CLIENT, Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
})  # fmt: skip
"""Requests that a broker makes of its clients. (Two more codes go both ways: GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY.)"""

UNUSED: Final = frozenset({
    Code.QUERY_BROKER_OFFSET, Code.GET_TOPIC_CONFIG_LIST, Code.GET_TOPIC_NAME_LIST, Code.TRIGGER_DELETE_FILES,
    Code.SUSPEND_CONSUMER, Code.RESUME_CONSUMER, Code.RESET_CONSUMER_OFFSET_IN_CONSUMER,
    Code.RESET_CONSUMER_OFFSET_IN_BROKER, Code.ADJUST_CONSUMER_THREAD_POOL, Code.WHO_CONSUME_THE_MESSAGE,
    Code.REGISTER_FILTER_SERVER, Code.REGISTER_MESSAGE_FILTER_CLASS,
})  # fmt: skip
"""Codes that RocketMQ 4.9 defines but does not serve."""

ROCKETMQ_5: Final = frozenset({
    Code.UPDATE_AND_CREATE_TOPIC_LIST, Code.GET_CLIENT_CONFIG, Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS,
    Code.REGISTER_TOPIC_IN_NAMESRV, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, Code.QUERY_TOPICS_BY_CONSUMER,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER, Code.GET_SUBSCRIPTIONGROUP_CONFIG,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN, Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, Code.EXPORT_ROCKSDB_CONFIG_TO_JSON,
    Code.QUERY_ASSIGNMENT, Code.SET_MESSAGE_REQUEST_MODE, Code.GET_ALL_MESSAGE_REQUEST_MODE,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC, Code.GET_BROKER_MEMBER_GROUP, Code.ADD_BROKER, Code.REMOVE_BROKER,
    Code.BROKER_HEARTBEAT, Code.NOTIFY_MIN_BROKER_ID_CHANGE, Code.EXCHANGE_BROKER_HA_INFO, Code.GET_BROKER_HA_STATUS,
    Code.RESET_MASTER_FLUSH_OFFSET, Code.POP_MESSAGE, Code.ACK_MESSAGE, Code.PEEK_MESSAGE,
    Code.CHANGE_MESSAGE_INVISIBLETIME, Code.NOTIFICATION, Code.POLLING_INFO, Code.POP_ROLLBACK, Code.BATCH_ACK_MESSAGE,
})  # fmt: skip
"""Requests of RocketMQ 5, which a 4.9 broker answers with code 3, and so does this one."""
