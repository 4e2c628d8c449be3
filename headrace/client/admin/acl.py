"""Access control of brokers: accounts, and addresses that need none (remoting spec 6.7)."""

from collections.abc import Sequence

from headrace.client.admin.calls import AdminCalls
from headrace.protocol.bodies import AclConfig
from headrace.protocol.headers import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from headrace.protocol.request_code import RequestCode


class AclAdmin(AdminCalls):
    """Access control of one broker (an address), of the masters of a cluster, or of all. All calls raise BrokerError, RemotingError."""

    async def update_account(
        self,
        access_key: str,
        secret_key: str | None = None,
        *,
        admin: bool | None = None,
        white_address: str | None = None,
        default_topic_permission: str | None = None,
        default_group_permission: str | None = None,
        topic_permissions: Sequence[str] | None = None,
        group_permissions: Sequence[str] | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> None:
        """Creates an account, or changes the given fields. Permissions are `DENY`, `PUB`, `SUB`, `PUB|SUB`; those of topics and groups `name=PUB`."""
        header = CreateAccessConfigRequestHeader(
            access_key,
            secret_key,
            white_address,
            admin,
            default_topic_permission,
            default_group_permission,
            None if topic_permissions is None else ",".join(topic_permissions),
            None if group_permissions is None else ",".join(group_permissions),
        )
        for address in await self._targets(broker, cluster):
            await self._ask(address, header)

    async def delete_account(self, access_key: str, *, broker: str | None = None, cluster: str | None = None) -> None:
        """Removes an account."""
        for address in await self._targets(broker, cluster):
            await self._ask(address, DeleteAccessConfigRequestHeader(access_key))

    async def update_global_white_addresses(
        self,
        addresses: Sequence[str],
        *,
        acl_file: str | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> None:
        """Replaces the list of addresses that need no account."""
        header = UpdateGlobalWhiteAddrsConfigRequestHeader(",".join(addresses), acl_file)
        for address in await self._targets(broker, cluster):
            await self._ask(address, header)

    async def acl_version(self, broker: str) -> GetBrokerAclConfigResponseHeader:
        """Returns the versions of a broker's access control files. A broker without access control does not answer: RequestTimeout."""
        answer = await self._ask(broker, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        return GetBrokerAclConfigResponseHeader.from_ext(answer.ext)

    async def acl_config(self, broker: str) -> AclConfig:
        """Returns all accounts with their secret keys, and the addresses that need no account. The Admin must have an admin account.

        Brokers of RocketMQ 4.9.8 reject the request for everybody.
        """
        return await self._body(AclConfig, broker, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
