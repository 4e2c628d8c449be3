"""AclReads: the access control of each master, by the requests 52 and 54. Secret keys stay in here."""

import json
from collections.abc import Mapping
from functools import partial

from msgspec import Struct, field

from headrace import Admin
from headrace.errors import HeadraceError
from headrace.protocol.bodies.acl import AclConfig, PlainAccessConfig
from headrace.protocol.headers.acl import GetBrokerAclConfigResponseHeader
from web.cluster.cluster import Cluster
from web.errors import Invalid


class BrokerAcl(Struct, frozen=True):
    """What one master reports about its access control."""

    broker: str
    address: str
    is_enabled: bool
    config: AclConfig | None = None
    """None if ACL is disabled, or the broker does not report it."""
    version: int | None = None
    """How often it was changed by requests."""
    changed: int | None = None
    """When it was last changed, ms."""
    files: Mapping[str, int] = field(default_factory=dict)
    """The version of each file."""
    problem: str = ""

    def account(self, access_key: str) -> PlainAccessConfig | None:
        """The account of an access key."""
        accounts = [] if self.config is None else self.config.plain_access_configs
        return next((one for one in accounts if one.access_key == access_key), None)


class AclReads:
    """Reads through the shared answers of `Cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def masters(self) -> dict[str, str]:
        """The addresses of all masters, by broker name."""
        return await self.cluster.read(("masters",), lambda admin: admin.masters())

    async def all(self) -> list[BrokerAcl]:
        """The access control of all masters; what failed is in `problem`."""
        masters = sorted((await self.masters()).items())
        answers = await self.cluster.map(self._of, masters)
        return [
            BrokerAcl(*master, is_enabled=True, problem=str(answer)) if isinstance(answer, Exception) else answer
            for master, answer in zip(masters, answers, strict=True)
        ]

    async def targets(self, broker: str) -> dict[str, str]:
        """The addresses of one broker, or of all if empty. Raises Invalid."""
        masters = await self.masters()
        if not broker:
            return dict(sorted(masters.items()))
        if broker not in masters:
            raise Invalid(
                "no master of the broker {broker} is registered", "Choose one of the brokers shown.", broker=broker[:80]
            )
        return {broker: masters[broker]}

    async def _of(self, master: tuple[str, str]) -> BrokerAcl:
        broker, address = master
        config = await self.cluster.read(("broker config", address), lambda admin: admin.broker_config(address))
        if config.get("aclEnable") != "true":
            # Apache's brokers do not answer requests about an ACL that is disabled.
            return BrokerAcl(broker, address, is_enabled=False)
        # One read for both answers: two could be of different ages, and the version not that of the accounts beside it.
        found, problem, header = await self.cluster.read(("acl", address), partial(_accounts_and_version, address))
        version, files = _object(header.version), _object(header.all_acl_file_version)
        return BrokerAcl(
            broker,
            address,
            is_enabled=True,
            config=found,
            version=_number(version.get("counter")),
            changed=_number(version.get("timestamp")),
            files={str(path): _number(one.get("counter")) or 0 for path, one in files.items() if isinstance(one, dict)},
            problem=problem,
        )


async def _accounts_and_version(
    address: str, admin: Admin
) -> tuple[AclConfig | None, str, GetBrokerAclConfigResponseHeader]:
    """The accounts, or why the broker does not report them; and the version. Raises HeadraceError."""
    found, problem = None, ""
    try:
        found = await admin.acl_config(address)
    except HeadraceError as error:
        problem = str(error)
    return found, problem, await admin.acl_version(address)


def _object(text: str | None) -> dict[str, object]:
    """The JSON object in a header; empty if it is none."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
