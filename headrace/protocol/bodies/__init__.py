"""Bodies of requests and responses, by family.

Most are JSON objects: dataclasses with `encode()` and `decode(data)`. Bodies that contain messages are in `record` and `batch`.
"""

from headrace.protocol.bodies.acl import AclConfig, PlainAccessConfig
from headrace.protocol.bodies.connections import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from headrace.protocol.bodies.consumer_state import (
    ConsumeMessageDirectlyResult,
    ConsumeResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    GetConsumerStatusBody,
    ProcessQueueInfo,
    ResetOffsetBody,
)
from headrace.protocol.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    ProducerData,
)
from headrace.protocol.bodies.locks import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    UnlockBatchRequestBody,
)
from headrace.protocol.bodies.properties_text import (
    decode_properties_text,
    encode_properties_text,
)
from headrace.protocol.bodies.register_broker import (
    RegisterBrokerBody,
)
from headrace.protocol.bodies.route import (
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicRouteData,
)
from headrace.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    BrokerStatsTotals,
    ConsumeQueueData,
    ConsumeStats,
    ConsumeStatsList,
    OffsetMovedEvent,
    OffsetWrapper,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)
from headrace.protocol.bodies.tables import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterWrapper,
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    FilterDataMapByTopic,
    GroupList,
    KVConfigSerializeWrapper,
    KVTable,
    LmqConsumerOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
    TopicList,
)
from headrace.protocol.json_bean import JsonBody, decode_bean, encode_bean

__all__ = [
    "AclConfig",
    "BloomFilterData",
    "BrokerData",
    "BrokerStatsData",
    "BrokerStatsItem",
    "BrokerStatsTotals",
    "CheckClientRequestBody",
    "ClusterInfo",
    "Connection",
    "ConsumeMessageDirectlyResult",
    "ConsumeQueueData",
    "ConsumeResult",
    "ConsumeStats",
    "ConsumeStatsList",
    "ConsumeStatus",
    "ConsumerConnection",
    "ConsumerData",
    "ConsumerFilterData",
    "ConsumerFilterWrapper",
    "ConsumerOffsetSerializeWrapper",
    "ConsumerRunningInfo",
    "DelayOffsetSerializeWrapper",
    "FilterDataMapByTopic",
    "GetConsumerListByGroupResponseBody",
    "GetConsumerStatusBody",
    "GroupList",
    "HeartbeatData",
    "JsonBody",
    "KVConfigSerializeWrapper",
    "KVTable",
    "LmqConsumerOffsetSerializeWrapper",
    "LockBatchRequestBody",
    "LockBatchResponseBody",
    "OffsetMovedEvent",
    "OffsetWrapper",
    "PlainAccessConfig",
    "ProcessQueueInfo",
    "ProducerConnection",
    "ProducerData",
    "ProducerInfo",
    "ProducerTableInfo",
    "QueryConsumeQueueResponseBody",
    "QueryConsumeTimeSpanBody",
    "QueryCorrectionOffsetBody",
    "QueueData",
    "QueueTimeSpan",
    "RegisterBrokerBody",
    "ResetOffsetBody",
    "SubscriptionGroupWrapper",
    "TopicConfigSerializeWrapper",
    "TopicList",
    "TopicOffset",
    "TopicRouteData",
    "TopicStatsTable",
    "UnlockBatchRequestBody",
    "decode_bean",
    "decode_properties_text",
    "encode_bean",
    "encode_properties_text",
]
