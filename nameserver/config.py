"""The name server's options: RocketMQ's keys, and two intervals that RocketMQ has as constants.

Options of RocketMQ's for its thread pools and buffers are not declared: there are none here.
"""

import os
from dataclasses import dataclass

from headrace.model.address_list import parse_networks
from headrace.model.buffer_limit import DEFAULT_LIMIT, check_limit
from headrace.model.connection_limits import (
    DEFAULT_FRAME_SIZE,
    DEFAULT_HEADER_SIZE,
    DEFAULT_REQUESTS_PER_ACCOUNT,
    DEFAULT_REQUESTS_PER_CONNECTION,
    check_limits,
)
from headrace.model.option import option


@dataclass(frozen=True)
class NameServerConfig:
    """The options of a name server."""

    listen_port: int = option(9876, help="Port that clients and brokers connect to.")
    rocketmq_home: str = option(os.environ.get("ROCKETMQ_HOME", ""), help="Reported to tools; not used otherwise.")
    kv_config_path: str = option(
        "", help="File of the key-value configuration; empty: `kvConfig.json` in the name server's folder."
    )
    config_store_path: str = option(
        "", help="File for options changed by requests; empty: `namesrv.properties` in the name server's folder."
    )
    order_message_enable: bool = option(
        False,
        help="Whether to return the queues of ordered topics to clients, from the namespace ORDER_TOPIC_CONFIG.",
        changeable=True,
    )
    config_black_list: str = option("", help="Further keys that requests cannot change, separated by semicolons.")
    admin_allow: str = option(
        "",
        help="Addresses and networks, joined by commas, of brokers and of administrators; the name server's own host is always"
        " allowed. Default: adminAllow of the broker's configuration.",
    )
    allow_unauthenticated_admin: bool = option(
        False,
        help="Whether everyone who reaches the name server may change it and register brokers; a warning is logged at each start."
        " Default: allowUnauthenticatedAdmin of the broker's configuration.",
    )
    server_channel_max_idle_time_seconds: int = option(120, help="Time after which an idle connection is closed (s).")
    max_connection_buffer_bytes: int = option(
        DEFAULT_LIMIT,
        help="Memory that all connections of the role may use together for frames that are not complete and answers that are not sent"
        " (bytes, at least 67108864); above it large frames wait, then idle connections are closed.",
    )
    max_connections: int = option(
        0,
        help="Connections in all; 0: three quarters of the limit of open files, at most 100000. Above it, connections are closed.",
    )
    max_connections_per_address: int = option(
        0,
        help="Connections of one address (of IPv6, of one /64 network); 0: three quarters of maxConnections. Above it, connections are closed.",
    )
    max_frame_size: int = option(
        DEFAULT_FRAME_SIZE,
        help="Size of a frame (bytes, 1048576 to 16777216); above it, the connection is closed.",
    )
    max_header_size: int = option(
        DEFAULT_HEADER_SIZE,
        help="Size of a request's header (bytes, 65536 to 16777216); above it, the connection is closed.",
    )
    max_requests_per_connection: int = option(
        DEFAULT_REQUESTS_PER_CONNECTION,
        help="Requests of one connection that are in progress; above it, no more are read until some are answered.",
    )
    max_requests_per_account: int = option(
        DEFAULT_REQUESTS_PER_ACCOUNT,
        help="Requests of one account, or of one address without an account, that are in progress; above it, SYSTEM_BUSY is answered.",
    )
    scan_not_active_broker_interval: int = option(10_000, help="Interval between searches for expired brokers, in ms.")
    broker_channel_expired_time: int = option(
        120_000, help="Time without a registration after which a broker is removed, in ms.", changeable=True
    )

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot be kept to."""
        check_limit(self.max_connection_buffer_bytes, "maxConnectionBufferBytes")
        parse_networks("adminAllow", self.admin_allow)
        check_limits(self)
