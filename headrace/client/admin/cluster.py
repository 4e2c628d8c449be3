"""Brokers and name servers themselves: figures, configuration, permissions, cleaning, key-value pairs."""

from collections.abc import Mapping

from headrace.client.admin.calls import AdminCalls
from headrace.protocol.bodies import BrokerStatsData, KVTable, decode_properties_text, encode_properties_text
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
    """Calls about servers. `broker` is always an address; all raise BrokerError, RemotingError."""

    async def runtime_info(self, broker: str) -> dict[str, str]:
        """A broker's figures, as texts by RocketMQ's names: `putTps`, `commitLogMaxOffset`, `brokerVersionDesc` …"""
        return (await self._body(KVTable, broker, RequestCode.GET_BROKER_RUNTIME_INFO)).table

    async def broker_config(self, broker: str) -> dict[str, str]:
        """A broker's configuration by RocketMQ's keys."""
        # compat: not by the VIP channel, as no tool of RocketMQ asks this there.
        answer = await self._instance.invoke(broker, create_request(RequestCode.GET_BROKER_CONFIG))
        return decode_properties_text(answer.body)

    async def update_broker_config(self, broker: str, changes: Mapping[str, object]) -> None:
        """Changes a broker's configuration while it runs. Keys that it does not know do nothing."""
        await self._ask(broker, RequestCode.UPDATE_BROKER_CONFIG, encode_properties_text(changes).encode())

    async def name_server_configs(self) -> dict[str, dict[str, str]]:
        """Each name server's configuration, by address."""
        addresses = sorted(self._instance.name_servers.addresses)
        answers = await self._ask_all_name_servers(RequestCode.GET_NAMESRV_CONFIG)
        return {
            address: decode_properties_text(answer.body) for address, answer in zip(addresses, answers, strict=True)
        }

    async def update_name_server_configs(self, changes: Mapping[str, object]) -> None:
        """Changes the configuration of all name servers."""
        await self._ask_all_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, encode_properties_text(changes).encode())

    async def broker_stats(self, broker: str, name: str, key: str) -> BrokerStatsData:
        """One statistic of the last minute, hour and day, such as TOPIC_PUT_NUMS of a topic."""
        return await self._body(BrokerStatsData, broker, ViewBrokerStatsDataRequestHeader(name, key))

    async def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Has clients send no more to a broker (a name), before it is stopped; by name server, how many topics that concerns."""
        answers = await self._ask_all_name_servers(WipeWritePermOfBrokerRequestHeader(broker_name))
        counts = (WipeWritePermOfBrokerResponseHeader.from_ext(answer.ext).wipe_topic_count for answer in answers)
        return dict(zip(sorted(self._instance.name_servers.addresses), counts, strict=True))

    async def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """The opposite of `wipe_write_permission`."""
        answers = await self._ask_all_name_servers(AddWritePermOfBrokerRequestHeader(broker_name))
        counts = (AddWritePermOfBrokerResponseHeader.from_ext(answer.ext).add_topic_count for answer in answers)
        return dict(zip(sorted(self._instance.name_servers.addresses), counts, strict=True))

    async def clean_expired_queues(self, broker: str) -> None:
        """Has a broker remove queues of which no message is left."""
        await self._ask(broker, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def clean_unused_topics(self, broker: str) -> None:
        """Has a broker remove the queues of topics that do not exist any more."""
        await self._ask(broker, RequestCode.CLEAN_UNUSED_TOPIC)

    async def delete_expired_logs(self, broker: str) -> None:
        """Has a broker delete expired CommitLog files now, not at its hour."""
        await self._ask(broker, RequestCode.DELETE_EXPIRED_COMMITLOG)

    # -- key-value pairs of the name servers ------------------------------------------------------------------------------

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Stores a value at all name servers."""
        await self._ask_all_name_servers(PutKvConfigRequestHeader(namespace, key, value))

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """A value. Raises BrokerError (22) if there is none."""
        answer = await self._ask_name_server(GetKvConfigRequestHeader(namespace, key))
        return GetKvConfigResponseHeader.from_ext(answer.ext).value

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Removes a value from all name servers."""
        await self._ask_all_name_servers(DeleteKvConfigRequestHeader(namespace, key))

    async def list_kv(self, namespace: str) -> dict[str, str]:
        """All values of a namespace. Raises BrokerError (22) if there are none."""
        return KVTable.decode((await self._ask_name_server(GetKvListByNamespaceRequestHeader(namespace))).body).table
