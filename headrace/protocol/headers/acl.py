"""Headers of a broker's access control. Lists are separated by commas."""

from typing import ClassVar

from headrace.protocol.headers.command_header import CommandHeader
from headrace.protocol.request_code import RequestCode


class CreateAccessConfigRequestHeader(CommandHeader, frozen=True):
    """UPDATE_AND_CREATE_ACL_CONFIG (50). Fields that are None are not changed. Its `repr` does not contain the secret key."""

    CODE: ClassVar[RequestCode] = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None

    def __repr__(self) -> str:
        return f"CreateAccessConfigRequestHeader(access_key={self.access_key!r})"


class DeleteAccessConfigRequestHeader(CommandHeader, frozen=True):
    """DELETE_ACL_CONFIG (51)."""

    CODE: ClassVar[RequestCode] = RequestCode.DELETE_ACL_CONFIG

    access_key: str


class UpdateGlobalWhiteAddrsConfigRequestHeader(CommandHeader, frozen=True):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53)."""

    CODE: ClassVar[RequestCode] = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG

    global_white_addrs: str
    acl_file_full_path: str | None = None


class GetBrokerAclConfigResponseHeader(CommandHeader, frozen=True):
    """Response to GET_BROKER_CLUSTER_ACL_INFO (52). Both versions are JSON: a DataVersion, and a map from file to DataVersion."""

    version: str
    broker_name: str
    broker_addr: str
    cluster_name: str
    all_acl_file_version: str | None = None
