"""The name server's options: RocketMQ's keys, and two intervals that RocketMQ has as constants.

Options of RocketMQ's for its thread pools and buffers are not declared: there are none here.
"""

import os
from dataclasses import dataclass

from headrace.model.option import option
from headrace.model.server_options import ServerOptions


@dataclass(frozen=True)
class NameServerConfig(ServerOptions):
    """The options of a name server."""

    listen_port: int = option(9876, help="Port that clients and brokers connect to.")
    rocketmq_home: str = option(os.environ.get("ROCKETMQ_HOME", ""), help="Reported to tools; not used otherwise.")
    kv_config_path: str = option(
        "", help="File of the key-value configuration; empty: kvConfig.json in the name server's folder."
    )
    config_store_path: str = option(
        "", help="File for options changed by requests; empty: namesrv.properties in the name server's folder."
    )
    order_message_enable: bool = option(
        False,
        help="Whether to return the queues of ordered topics to clients, from the namespace ORDER_TOPIC_CONFIG.",
        changeable=True,
    )
    config_black_list: str = option("", help="Further keys that requests cannot change, separated by semicolons.")
    scan_not_active_broker_interval: int = option(10_000, help="Interval between searches for expired brokers, in ms.")
    broker_channel_expired_time: int = option(
        120_000, help="Time without a registration after which a broker is removed, in ms.", changeable=True
    )
