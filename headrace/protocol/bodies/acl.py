"""A broker's access control: its accounts and the addresses that need none."""

from msgspec import Struct, field

from headrace.protocol.json_bean import JsonBody


class PlainAccessConfig(Struct):
    """An account as in its file. Its `repr` does not contain the secret key."""

    access_key: str = ""
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None

    def __repr__(self) -> str:
        return f"PlainAccessConfig(access_key={self.access_key!r})"


class AclConfig(JsonBody):
    """Body of the response to GET_BROKER_CLUSTER_ACL_CONFIG."""

    global_white_addrs: list[str] = field(default_factory=list)
    plain_access_configs: list[PlainAccessConfig] = field(default_factory=list)
