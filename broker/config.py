"""The broker's options: RocketMQ's keys of `broker.conf`, each declared once.

Keys of the store (`fileReservedTime`, `flushDiskType`, `messageDelayLevel` …) are in the store's own configuration; both read the same file.
What a 4.9 broker knows and we have no use for is in `ACCEPTED_UNUSED`, here and there, with the reason, so that a `broker.conf` brought along from a Java broker
gives warnings and no errors. Facts: remoting spec 4.1, admin spec 11.
"""

import socket
from dataclasses import dataclass
from typing import Final

import psutil

from headrace.model import names, permission
from headrace.model.option import check_range, option
from headrace.model.server_options import ServerOptions
from headrace.protocol.record_layout import MAX_PROPERTIES_LENGTH


@dataclass(frozen=True)
class BrokerConfig(ServerOptions):
    """The options of the broker process. `brokerName` and the two addresses have defaults from the host."""

    # -- who and where it is
    broker_cluster_name: str = option("DefaultCluster", help="Cluster to which the broker belongs.")
    broker_name: str = option("", help="Name shared by a master and its slaves; default: the host name.")
    broker_id: int = option(names.MASTER_ID, help="0 for a master, greater than 0 for a slave.")
    broker_ip1: str = option("", key="brokerIP1", help="Address given to clients; default: the host's first address.")
    broker_ip2: str = option("", key="brokerIP2", help="Address given to slaves; default: brokerIP1.")
    listen_port: int = option(10911, help="Port of the main listener; VIP channel: 2 below, HA: 1 above.")
    namesrv_addr: str | None = option(
        None,
        help="Name servers, as host:port separated by semicolons; without any, the broker does not register. Read again when the broker role restarts.",
        changeable=True,
        by_request=False,
    )
    region_id: str = option("DefaultRegion", help="Region returned to producers in every response (MSG_REGION).")
    broker_permission: int = option(
        permission.READ | permission.WRITE, help="Permission of the broker: 4 read, 2 write, 6 both.", changeable=True
    )

    # -- topics and groups
    auto_create_topic_enable: bool = option(
        True, help="Whether a send to an unknown topic creates it from the template TBW102.", changeable=True
    )
    default_topic_queue_nums: int = option(
        8, help="Queues of TBW102, and so the maximum for a topic created by a send."
    )
    cluster_topic_enable: bool = option(True, help="Whether the topic named after the cluster can be read and written.")
    broker_topic_enable: bool = option(True, help="Whether the topic named after the broker can be read and written.")
    auto_create_subscription_group: bool = option(
        True, help="Whether an unknown consumer group is created at its first request.", changeable=True
    )
    trace_topic_enable: bool = option(False, help="Whether the broker has a topic for message traces.")
    msg_trace_topic_name: str = option(names.TRACE_TOPIC, help="Name of the topic for message traces.")

    # -- sending
    trace_on: bool = option(True, help="Returned to producers in every response (TRACE_ON).")
    reject_transaction_message: bool = option(
        False, help="Whether transactional messages are refused.", changeable=True
    )
    start_accept_send_request_time_stamp: int = option(
        0, help="Time before which sends are refused (Unix time in ms).", changeable=True
    )
    store_reply_message_enable: bool = option(
        True, help="Whether replies (request-reply) are also stored, not only forwarded.", changeable=True
    )

    # -- statistics
    enable_detail_stat: bool = option(
        True, help="Whether pull latency is recorded per queue; if false, only per topic and group."
    )
    auto_delete_unused_stats: bool = option(
        False, help="Whether the statistics of a topic or group are deleted with it.", changeable=True
    )

    # -- pulling
    long_polling_enable: bool = option(
        True, help="Whether a pull without messages is held for the time that the consumer requests.", changeable=True
    )
    short_polling_time_mills: int = option(
        1000, help="How long a pull without messages is held if longPollingEnable is false (ms).", changeable=True
    )
    slave_read_enable: bool = option(
        False, help="Whether consumers that are far behind are redirected to a slave.", changeable=True
    )
    transfer_msg_by_heap: bool = option(True, help="No effect: messages are always copied into the response.")
    notify_consumer_ids_changed_enable: bool = option(
        True, help="Whether group members are notified at once when a member joins or leaves.", changeable=True
    )

    # -- filters
    enable_property_filter: bool = option(
        False, help="Whether consumers can filter messages by SQL92 expressions.", changeable=True
    )
    enable_calc_filter_bit_map: bool = option(
        False, help="Whether dispatch evaluates SQL92 filters and stores the results as bitmaps."
    )
    filter_support_retry: bool = option(False, help="Whether filters also apply to retried messages.", changeable=True)
    expect_consumer_num_use_filter: int = option(
        32, help="Expected number of consumer groups with SQL92 filters; determines the size of the bitmaps."
    )
    max_error_rate_of_bloom_filter: int = option(20, help="Error rate of the bitmaps of SQL92 filters (per cent).")
    filter_data_clean_time_span: int = option(
        86_400_000, help="How long the filter of a group without consumers is kept (ms)."
    )
    python_filter_timeout: int = option(
        2000, help="Maximum time of a filter function for the messages of one pull (ms).", changeable=True
    )

    # -- transactions
    transaction_time_out: int = option(6000, help="Age at which a half message is first checked (ms).", changeable=True)
    transaction_check_max: int = option(15, help="Maximum number of checks of a half message.", changeable=True)
    transaction_check_interval: int = option(60_000, help="Interval between rounds of checks (ms).", changeable=True)

    # -- messages at any time (RocketMQ 5)
    timer_wheel_enable: bool = option(
        True,
        help="Whether messages can be scheduled for a given time (TIMER_DELIVER_MS and similar properties).",
        changeable=True,
    )
    timer_max_delay_sec: int = option(
        259_200, help="Maximum delay of timer messages (s); never longer than fileReservedTime.", changeable=True
    )

    # -- consumer offsets
    flush_consumer_offset_interval: int = option(5000, help="Interval at which consumer offsets are written (ms).")

    # -- name servers
    register_name_server_period: int = option(
        30_000, help="Interval at which the broker registers (ms, from 10,000 to 60,000)."
    )
    register_broker_timeout_mills: int = option(6000, help="Timeout of registration requests (ms).")
    force_register: bool = option(True, help="Whether to register without first asking whether anything has changed.")
    compressed_register: bool = option(False, help="Whether the list of topics is sent compressed to name servers.")

    # -- limits, access, administration
    max_held_pulls: int = option(
        100_000,
        help="Maximum number of held pulls. Further pulls without messages are answered with SYSTEM_BUSY.",
    )
    max_held_pulls_per_connection: int = option(
        20_000,
        help="Maximum number of held pulls per connection. Further pulls without messages are answered with SYSTEM_BUSY.",
    )
    max_topics_created_per_minute: int = option(
        1000,
        help="Maximum number of topics and consumer groups created automatically per minute. Requests that need another are answered with SYSTEM_BUSY.",
    )
    max_message_properties: int = option(
        1024,
        help="Maximum number of properties of a message. A message with more is refused with MESSAGE_ILLEGAL.",
    )
    max_message_properties_size: int = option(
        MAX_PROPERTIES_LENGTH,
        help="Maximum size of a message's properties (bytes, 1024 to 32767). A message with more is refused with MESSAGE_ILLEGAL.",
    )
    max_filter_length: int = option(
        8192,
        help="Maximum length of an SQL92 expression (characters, at most 8192). A subscription with a longer one is refused.",
    )
    max_filter_terms: int = option(
        4096,
        help="Maximum number of operators, values and properties in an SQL92 expression. A subscription with more is refused.",
    )
    max_filters: int = option(
        10_000,
        help="Maximum number of SQL92 expressions kept for consumer groups. Beyond it, the expression of the group that has had no consumers for the longest time is dropped; if all groups have consumers, pulls with a new expression are answered with FILTER_DATA_NOT_EXIST.",
    )
    acl_enable: bool = option(False, help="Whether requests have to be signed by an account in the ACL files.")
    rocketmq_home: str = option(
        "",
        help="Folder that contains conf/plain_acl.yml and conf/acl/; the broker's data folder if not given.",
    )
    acl_plain_file: str = option(
        "conf/plain_acl.yml",
        key="rocketmq.acl.plain.file",
        help="The main ACL file, relative to rocketmqHome. RocketMQ has this as a system property.",
    )
    config_black_list: str = option(
        "configBlackList;brokerConfigPath", help="Further keys that requests cannot change, separated by semicolons."
    )

    def __post_init__(self) -> None:
        """Fills in what was not given: the host's name and its addresses. Raises ValueError for what cannot be kept to."""
        super().__post_init__()
        for name, value, least, most in (
            ("maxHeldPulls", self.max_held_pulls, 1, None),
            ("maxHeldPullsPerConnection", self.max_held_pulls_per_connection, 1, None),
            ("maxTopicsCreatedPerMinute", self.max_topics_created_per_minute, 0, None),
            ("maxMessageProperties", self.max_message_properties, 8, None),
            ("maxMessagePropertiesSize", self.max_message_properties_size, 1024, MAX_PROPERTIES_LENGTH),
            ("maxFilterLength", self.max_filter_length, 1, 8192),
            ("maxFilterTerms", self.max_filter_terms, 1, None),
            ("maxFilters", self.max_filters, 0, None),
        ):
            check_range(name, value, least, most)
        if not self.broker_name:
            object.__setattr__(self, "broker_name", socket.gethostname() or "DEFAULT_BROKER")
        if not self.broker_ip1:
            object.__setattr__(self, "broker_ip1", first_address())
        if not self.broker_ip2:
            object.__setattr__(self, "broker_ip2", self.broker_ip1)

    @property
    def address(self) -> str:
        """The address given to clients: `brokerIP1:listenPort`. It is also the store host of every message."""
        return f"{self.broker_ip1}:{self.listen_port}"

    @property
    def ha_address(self) -> str:
        """The address given to slaves: `brokerIP2` and the port after `listenPort`."""
        return f"{self.broker_ip2}:{self.listen_port + 1}"

    @property
    def fast_port(self) -> int:
        """The port of the second listener, which serves everything but pulls."""
        return self.listen_port - 2

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers, each once, in the order given."""
        given = (address.strip() for address in (self.namesrv_addr or "").split(";"))
        return tuple(dict.fromkeys(address for address in given if address))

    @property
    def register_period_s(self) -> float:
        """Interval of registrations, from 10 s to 60 s (remoting spec 3.3)."""
        return min(max(self.register_name_server_period, 10_000), 60_000) / 1000

    @property
    def reply_topic(self) -> str:
        """The topic of replies (request-reply) in this cluster."""
        return names.reply_topic(self.broker_cluster_name)


def first_address() -> str:
    """The first IPv4 address of this host that is not loopback; 127.0.0.1 if there is none."""
    for addresses in psutil.net_if_addrs().values():
        for entry in addresses:
            if entry.family == socket.AF_INET and not entry.address.startswith("127."):
                return entry.address
    return "127.0.0.1"


_NO_POOLS: Final = "requests are handled by one event loop; there are no thread pools"
_NO_QUEUES: Final = "requests do not wait in queues; a connection that cannot be served is not read"
_NOT_NETTY: Final = "a setting of Netty, which is not used here"
_CLIENT: Final = "a setting of Netty's client, which is not used here"
_NO_COMMERCIAL: Final = "belongs to a commercial edition"

ACCEPTED_UNUSED: Final[dict[str, str]] = {
    "messageStorePlugIn": "the store has no plug-ins",
    "fetchNamesrvAddrByAddressServer": "name servers are given by namesrvAddr",
    "filterServerNums": "filter servers were removed in RocketMQ 4.3",
    "highSpeedMode": "RocketMQ does not use it either",
    "flushConsumerOffsetHistoryInterval": "RocketMQ does not use it either",
    "maxDelayTime": "RocketMQ does not use it either",
    "isolateLogEnable": "all processes write to one log file, with their names",
    "disableConsumeIfConsumerReadSlowly": "slow consumers are not disconnected",
    "consumerFallbehindThreshold": "slow consumers are not disconnected",
    **dict.fromkeys(
        (
            "sendMessageThreadPoolNums", "putMessageFutureThreadPoolNums", "pullMessageThreadPoolNums",
            "processReplyMessageThreadPoolNums", "queryMessageThreadPoolNums", "adminBrokerThreadPoolNums",
            "clientManageThreadPoolNums", "consumerManageThreadPoolNums", "heartbeatThreadPoolNums",
            "endTransactionThreadPoolNums", "serverWorkerThreads", "serverCallbackExecutorThreads",
            "serverSelectorThreads", "clientWorkerThreads", "clientCallbackExecutorThreads",
        ),
        _NO_POOLS,
    ),
    **dict.fromkeys(
        (
            "sendThreadPoolQueueCapacity", "putThreadPoolQueueCapacity", "pullThreadPoolQueueCapacity",
            "replyThreadPoolQueueCapacity", "queryThreadPoolQueueCapacity", "clientManagerThreadPoolQueueCapacity",
            "consumerManagerThreadPoolQueueCapacity", "heartbeatThreadPoolQueueCapacity",
            "endTransactionPoolQueueCapacity", "brokerFastFailureEnable", "waitTimeMillsInSendQueue",
            "waitTimeMillsInPullQueue", "waitTimeMillsInHeartbeatQueue", "waitTimeMillsInTransactionQueue",
        ),
        _NO_QUEUES,
    ),
    **dict.fromkeys(
        ("commercialEnable", "commercialTimerCount", "commercialTransCount", "commercialBigCount", "commercialBaseCount"),
        _NO_COMMERCIAL,
    ),
    **dict.fromkeys(
        (
            "serverOnewaySemaphoreValue", "serverAsyncSemaphoreValue", "serverSocketSndBufSize",
            "serverSocketRcvBufSize", "writeBufferHighWaterMark", "writeBufferLowWaterMark", "serverSocketBacklog",
            "serverPooledByteBufAllocatorEnable", "useEpollNativeSelector",
        ),
        _NOT_NETTY,
    ),
    **dict.fromkeys(
        (
            "clientOnewaySemaphoreValue", "clientAsyncSemaphoreValue", "connectTimeoutMillis",
            "channelNotActiveInterval", "clientChannelMaxIdleTimeSeconds", "clientSocketSndBufSize",
            "clientSocketRcvBufSize", "clientPooledByteBufAllocatorEnable", "clientCloseSocketIfTimeout", "useTLS",
        ),
        _CLIENT,
    ),
}  # fmt: skip
"""Keys of a 4.9 broker without effect here, with the reason; the store has more. They cause warnings, not errors."""
