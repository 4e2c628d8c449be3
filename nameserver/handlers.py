"""The name server's request handlers: one method for each request code (remoting spec, section 3).

Codes that are not here are answered with REQUEST_CODE_NOT_SUPPORTED.
# compat: RocketMQ 4.9 does not answer them, so tools wait for their timeout; RocketMQ 5 answers as we do.

As in RocketMQ, a missing field is treated as an unknown name: the field is read directly from the ext map.
"""

import logging
import zlib
from collections.abc import Awaitable, Generator

from headrace.model.data_version import DataVersion
from headrace.model.names import ORDER_TOPIC_NAMESPACE
from headrace.protocol.bodies.register_broker import RegisterBrokerBody
from headrace.protocol.bodies.route import ClusterInfo
from headrace.protocol.bodies.tables import TopicList
from headrace.protocol.headers.name_server import (
    AddWritePermOfBrokerResponseHeader,
    GetKvConfigResponseHeader,
    PutKvConfigRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnregisterBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from headrace.protocol.json_bean import decode_bean, encode_bean
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.protocol.version import MIN_REGISTER_BODY_VERSION, MIN_STANDARD_JSON_VERSION
from headrace.remoting import Connection, HandlerTable
from headrace.remoting.slices import in_slices
from nameserver.errors import SettingsRefused
from nameserver.kv_config import KvConfig
from nameserver.routes import BrokerIdentity, Registration, RouteTable
from nameserver.settings import Settings

logger = logging.getLogger(__name__)


class NameServerHandlers:
    """The handlers with their tables. `table()` is the handler table of a RemotingServer."""

    def __init__(self, routes: RouteTable, kv: KvConfig, settings: Settings) -> None:
        self._routes = routes
        self._kv = kv
        self._settings = settings

    def table(self) -> HandlerTable:
        """Each code with its method."""
        table = HandlerTable()
        for code, handler in (
            (RequestCode.PUT_KV_CONFIG, self.put_kv),
            (RequestCode.GET_KV_CONFIG, self.get_kv),
            (RequestCode.DELETE_KV_CONFIG, self.delete_kv),
            (RequestCode.GET_KVLIST_BY_NAMESPACE, self.list_kv),
            (RequestCode.REGISTER_BROKER, self.register_broker),
            (RequestCode.UNREGISTER_BROKER, self.unregister_broker),
            (RequestCode.QUERY_DATA_VERSION, self.query_data_version),
            (RequestCode.GET_ROUTEINFO_BY_TOPIC, self.get_route),
            (RequestCode.GET_BROKER_CLUSTER_INFO, self.get_clusters),
            (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self.list_topics),
            (RequestCode.GET_TOPICS_BY_CLUSTER, self.list_topics_of_cluster),
            (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self.list_system_topics),
            (RequestCode.GET_UNIT_TOPIC_LIST, self.list_unit_topics),
            (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, self.list_unit_subscription_topics),
            (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, self.list_unit_subscription_only_topics),
            (RequestCode.DELETE_TOPIC_IN_NAMESRV, self.delete_topic),
            (RequestCode.WIPE_WRITE_PERM_OF_BROKER, self.wipe_write_permission),
            (RequestCode.ADD_WRITE_PERM_OF_BROKER, self.add_write_permission),
            (RequestCode.UPDATE_NAMESRV_CONFIG, self.update_settings),
            (RequestCode.GET_NAMESRV_CONFIG, self.get_settings),
        ):
            table.register(code, handler)
        return table

    # -- brokers ----------------------------------------------------------------------------------------------------------

    def register_broker(
        self, connection: Connection, command: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand]:
        """REGISTER_BROKER: takes the broker's topics, many of them in slices; tells a slave where its master is."""
        steps = self._register_steps(connection, command)
        try:
            next(steps)
        except StopIteration as done:
            answer: RemotingCommand = done.value
            return answer
        return in_slices(connection, steps)

    def _register_steps(
        self, connection: Connection, command: RemotingCommand
    ) -> Generator[None, None, RemotingCommand]:
        header = RegisterBrokerRequestHeader.from_ext(command.ext_fields)
        if header.body_crc32 and zlib.crc32(command.body) & 0x7FFFFFFF != header.body_crc32:
            return response_to(
                command, ResponseCode.SYSTEM_ERROR, "crc32 not match: the body was corrupted in transit", {}
            )
        body = yield from RegisterBrokerBody.decode_steps(
            command.body, compressed=header.compressed, version=command.version
        )
        servers = body.filter_server_list
        if command.version >= MIN_REGISTER_BODY_VERSION:
            servers = servers or []
        broker = BrokerIdentity(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr)
        is_new = header.broker_addr not in self._routes.live_brokers()
        registration = Registration(
            broker,
            header.ha_server_addr,
            body.topic_config.data_version,
            body.topic_config.topic_config_table.values(),
            servers,
        )
        master = yield from self._routes.register_steps(registration, connection)
        if is_new:
            logger.info("broker registered broker=%s id=%d address=%s", broker.name, broker.id, broker.address)
        answer = RegisterBrokerResponseHeader(master.ha_address, master.address) if master else None
        ordered = self._kv.find_table(ORDER_TOPIC_NAMESPACE)
        return response_to(
            command,
            ResponseCode.SUCCESS,
            ext=answer.to_ext() if answer else {},
            body=ordered.encode() if ordered is not None else b"",
        )

    def unregister_broker(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """UNREGISTER_BROKER."""
        header = UnregisterBrokerRequestHeader.from_ext(command.ext_fields)
        self._routes.unregister(
            BrokerIdentity(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr)
        )
        logger.info("broker unregistered broker=%s address=%s", header.broker_name, header.broker_addr)
        return response_to(command, ResponseCode.SUCCESS)

    def query_data_version(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """QUERY_DATA_VERSION: whether the broker's topics have changed since it registered."""
        header = QueryDataVersionRequestHeader.from_ext(command.ext_fields)
        version = decode_bean(DataVersion, command.body, untrusted=True)
        is_changed, known = self._routes.compare_data_version(header.broker_addr, version)
        ext = QueryDataVersionResponseHeader(is_changed).to_ext()
        return response_to(command, ResponseCode.SUCCESS, ext=ext, body=encode_bean(known) if known else b"")

    # -- routes and lists -------------------------------------------------------------------------------------------------

    def get_route(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_ROUTEINFO_BY_TOPIC."""
        topic = command.ext.get("topic")
        route = self._routes.find_route(topic) if topic is not None else None
        if route is None or topic is None:
            # compat: the beginning is RocketMQ's; tools may search for it. Its link, to a page that does not exist any more, is left out.
            remark = f"No topic route info in name server for the topic: {topic}"
            return response_to(command, ResponseCode.TOPIC_NOT_EXIST, remark)
        if self._settings.config.order_message_enable:
            route.order_topic_conf = self._kv.find_order_config(topic)
        wants_standard = (
            command.version >= MIN_STANDARD_JSON_VERSION
            or command.ext.get("acceptStandardJsonOnly", "").lower() == "true"
        )
        body = route.encode_standard() if wants_standard else route.encode()
        return response_to(command, ResponseCode.SUCCESS, body=body)

    def get_clusters(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_BROKER_CLUSTER_INFO: broker ids without quotes, whatever the client."""
        info = ClusterInfo(self._routes.brokers(), self._routes.clusters())
        return response_to(command, ResponseCode.SUCCESS, body=info.encode())

    def list_topics(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
        return _topic_list(command, self._routes.topics())

    def list_topics_of_cluster(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_TOPICS_BY_CLUSTER."""
        return _topic_list(command, self._routes.topics_of_cluster(command.ext.get("cluster", "")))

    def list_system_topics(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_SYSTEM_TOPIC_LIST_FROM_NS."""
        return _topic_list(command, self._routes.system_topics(), self._routes.some_address())

    def list_unit_topics(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_UNIT_TOPIC_LIST."""
        return _topic_list(command, self._routes.unit_topics())

    def list_unit_subscription_topics(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_HAS_UNIT_SUB_TOPIC_LIST."""
        return _topic_list(command, self._routes.unit_subscription_topics())

    def list_unit_subscription_only_topics(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST."""
        return _topic_list(command, self._routes.unit_subscription_only_topics())

    # -- an operator's changes --------------------------------------------------------------------------------------------

    def delete_topic(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """DELETE_TOPIC_IN_NAMESRV."""
        topic, cluster = command.ext.get("topic"), command.ext.get("clusterName")
        if topic is not None:
            self._routes.delete_topic(topic, cluster or None)
            logger.info("topic deleted topic=%s cluster=%s remote=%s", topic, cluster or "*", connection.remote)
        return response_to(command, ResponseCode.SUCCESS)

    def wipe_write_permission(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """WIPE_WRITE_PERM_OF_BROKER."""
        name = command.ext.get("brokerName", "")
        count = self._routes.wipe_write_permission(name)
        logger.info("write permission removed broker=%s topics=%d remote=%s", name, count, connection.remote)
        return response_to(command, ResponseCode.SUCCESS, ext=WipeWritePermOfBrokerResponseHeader(count).to_ext())

    def add_write_permission(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """ADD_WRITE_PERM_OF_BROKER."""
        name = command.ext.get("brokerName", "")
        count = self._routes.add_write_permission(name)
        logger.info("write permission added broker=%s topics=%d remote=%s", name, count, connection.remote)
        return response_to(command, ResponseCode.SUCCESS, ext=AddWritePermOfBrokerResponseHeader(count).to_ext())

    def update_settings(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """UPDATE_NAMESRV_CONFIG: properties text."""
        try:
            changed = self._settings.update(command.body)
        except SettingsRefused as error:
            code = ResponseCode.NO_PERMISSION if error.is_forbidden else ResponseCode.SYSTEM_ERROR
            return response_to(command, code, str(error))
        logger.info("options changed %s remote=%s", " ".join(f"{k}={v}" for k, v in changed.items()), connection.remote)
        return response_to(command, ResponseCode.SUCCESS)

    def get_settings(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_NAMESRV_CONFIG: properties text."""
        return response_to(command, ResponseCode.SUCCESS, body=self._settings.text().encode())

    # -- keys and values --------------------------------------------------------------------------------------------------

    def put_kv(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """PUT_KV_CONFIG."""
        header = PutKvConfigRequestHeader.from_ext(command.ext_fields)
        self._kv.put(header.namespace, header.key, header.value)
        return response_to(command, ResponseCode.SUCCESS)

    def get_kv(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_KV_CONFIG."""
        namespace, key = command.ext.get("namespace"), command.ext.get("key")
        value = self._kv.find(namespace, key) if namespace is not None and key is not None else None
        if value is None:
            remark = f"No config item: namespace {namespace} has no value for key {key}"
            return response_to(command, ResponseCode.QUERY_NOT_FOUND, remark, {})
        return response_to(command, ResponseCode.SUCCESS, ext=GetKvConfigResponseHeader(value).to_ext())

    def delete_kv(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """DELETE_KV_CONFIG."""
        namespace, key = command.ext.get("namespace"), command.ext.get("key")
        if namespace is not None and key is not None:
            self._kv.delete(namespace, key)
        return response_to(command, ResponseCode.SUCCESS)

    def list_kv(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """GET_KVLIST_BY_NAMESPACE."""
        namespace = command.ext.get("namespace")
        table = self._kv.find_table(namespace) if namespace is not None else None
        if table is None:
            remark = f"No config item: there is no namespace {namespace}"
            return response_to(command, ResponseCode.QUERY_NOT_FOUND, remark)
        return response_to(command, ResponseCode.SUCCESS, body=table.encode())


def _topic_list(command: RemotingCommand, topics: list[str], address: str | None = None) -> RemotingCommand:
    return response_to(command, ResponseCode.SUCCESS, body=TopicList(topics, address).encode())
