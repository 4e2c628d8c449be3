"""Routes: which brokers have a topic, with how many queues, and their addresses."""

from msgspec import Struct, field

from headrace.model.names import MASTER_ID
from headrace.protocol import fastjson
from headrace.protocol.json_bean import JsonBody, to_value


class QueueData(Struct):
    """A topic's queues at one broker name. `perm` has the bits of `permission`."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


class BrokerData(Struct):
    """The addresses (`host:port`) of the brokers with one name, by broker id; 0 is the master."""

    broker_name: str
    cluster: str | None = None
    broker_addrs: dict[int, str] = field(default_factory=dict)

    @property
    def master_address(self) -> str | None:
        """The master's address, None if there is no master."""
        return self.broker_addrs.get(MASTER_ID)


class TopicRouteData(JsonBody):
    """Answer to GET_ROUTEINFO_BY_TOPIC. `order_topic_conf` is `broker:queues;…` for ordered topics."""

    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None

    def encode_standard(self) -> bytes:
        """Encodes the body in standard JSON, for clients from MIN_STANDARD_JSON_VERSION on; `encode` writes broker ids without quotes."""
        return fastjson.dumps_standard(to_value(self)).encode()


class ClusterInfo(JsonBody):
    """Answer to GET_BROKER_CLUSTER_INFO: brokers by name, and the names in each cluster."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)
