"""Brokers and name servers: statistics, configuration, permissions, cleaning, key-value pairs."""

from collections.abc import Mapping

from headrace.client.admin.calls import AdminCalls
from headrace.protocol.bodies import (
    BrokerStatsData,
    BrokerStatsTotals,
    KVTable,
    decode_properties_text,
    encode_properties_text,
)
from headrace.protocol.bodies.stats import ALL_KEYS
from headrace.protocol.headers import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteKvConfigRequestHeader,
    GetKvConfigRequestHeader,
    GetKvConfigResponseHeader,
    GetKvListByNamespaceRequestHeader,
    PutKvConfigRequestHeader,
    ViewBrokerStatsDataRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode


class ClusterAdmin(AdminCalls):
    """Administration of servers. `broker` is always an address; all calls raise BrokerError, RemotingError."""

    async def runtime_info(self, broker: str) -> dict[str, str]:
        """Returns a broker's runtime information, as strings under RocketMQ's names: `putTps`, `commitLogMaxOffset`, `brokerVersionDesc` …"""
        return (await self._body(KVTable, broker, RequestCode.GET_BROKER_RUNTIME_INFO)).table

    async def broker_config(self, broker: str) -> dict[str, str]:
        """Returns a broker's configuration, under RocketMQ's keys."""
        # compat: not over the VIP channel, which no RocketMQ tool uses for this request.
        answer = await self._instance.invoke(broker, create_request(RequestCode.GET_BROKER_CONFIG))
        return decode_properties_text(answer.body)

    async def update_broker_config(self, broker: str, changes: Mapping[str, object]) -> None:
        """Changes a broker's configuration at run time. Unknown keys have no effect."""
        await self._ask(broker, RequestCode.UPDATE_BROKER_CONFIG, encode_properties_text(changes).encode())

    async def name_server_configs(self, *, name_server: str | None = None) -> dict[str, dict[str, str]]:
        """Returns the configuration of each name server, or of one, by address."""
        answers = await self._ask_name_servers(RequestCode.GET_NAMESRV_CONFIG, only=name_server)
        return {address: decode_properties_text(answer.body) for address, answer in answers.items()}

    async def update_name_server_configs(
        self, changes: Mapping[str, object], *, name_server: str | None = None
    ) -> None:
        """Changes the configuration of all name servers, or of one."""
        text = encode_properties_text(changes).encode()
        await self._ask_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, text, name_server)

    async def broker_stats(self, broker: str, name: str, key: str) -> BrokerStatsData:
        """Returns one statistic of the last minute, hour and day, such as TOPIC_PUT_NUMS of a topic."""
        return await self._body(BrokerStatsData, broker, ViewBrokerStatsDataRequestHeader(name, key))

    async def broker_stats_totals(self, broker: str, name: str) -> dict[str, int]:
        """Returns a statistic's totals since the broker's start, by key: TOPIC_PUT_NUMS by topic, GROUP_GET_NUMS by `topic@group`.

        Raises BrokerError at RocketMQ's brokers, which have no such request.
        """
        header = ViewBrokerStatsDataRequestHeader(name, ALL_KEYS)
        return (await self._body(BrokerStatsTotals, broker, header)).totals

    async def wipe_write_permission(self, broker_name: str, *, name_server: str | None = None) -> dict[str, int]:
        """Makes clients stop sending to a broker (a name), before it is stopped; returns by name server how many topics were changed."""
        answers = await self._ask_name_servers(WipeWritePermOfBrokerRequestHeader(broker_name), only=name_server)
        return {
            address: WipeWritePermOfBrokerResponseHeader.from_ext(answer.ext).wipe_topic_count
            for address, answer in answers.items()
        }

    async def add_write_permission(self, broker_name: str, *, name_server: str | None = None) -> dict[str, int]:
        """The opposite of `wipe_write_permission`."""
        answers = await self._ask_name_servers(AddWritePermOfBrokerRequestHeader(broker_name), only=name_server)
        return {
            address: AddWritePermOfBrokerResponseHeader.from_ext(answer.ext).add_topic_count
            for address, answer in answers.items()
        }

    async def clean_expired_queues(self, broker: str) -> None:
        """Makes a broker remove queues that contain no messages any more."""
        await self._ask(broker, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def clean_unused_topics(self, broker: str) -> None:
        """Makes a broker remove the queues of deleted topics."""
        await self._ask(broker, RequestCode.CLEAN_UNUSED_TOPIC)

    async def delete_expired_logs(self, broker: str) -> None:
        """Makes a broker delete expired CommitLog files now instead of at the configured hour."""
        await self._ask(broker, RequestCode.DELETE_EXPIRED_COMMITLOG)

    # -- key-value pairs of the name servers ------------------------------------------------------------------------------

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Stores a value at all name servers."""
        await self._ask_name_servers(PutKvConfigRequestHeader(namespace, key, value))

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """Returns a value. Raises BrokerError (22) if there is none."""
        answer = await self._ask_name_server(GetKvConfigRequestHeader(namespace, key))
        return GetKvConfigResponseHeader.from_ext(answer.ext).value

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Removes a value from all name servers."""
        await self._ask_name_servers(DeleteKvConfigRequestHeader(namespace, key))

    async def list_kv(self, namespace: str) -> dict[str, str]:
        """Returns all values of a namespace. Raises BrokerError (22) if there are none."""
        return KVTable.decode((await self._ask_name_server(GetKvListByNamespaceRequestHeader(namespace))).body).table
