"""Namespaces: a prefix that clients put before topics and groups, and take away again. Brokers know nothing of them (client spec 1.9).

In the namespace `ns` the topic `Orders` is `ns%Orders` to brokers, and `%RETRY%group` is `%RETRY%ns%group`.
"""

import re
from typing import Final

from headrace.model import names

SEPARATOR: Final = "%"
_INSTANCE_ADDRESS: Final = re.compile(r"(?:\w+://|)(MQ_INST_\w+_\w+)\..*")


def _split(resource: str) -> tuple[str, str]:
    for marker in (names.RETRY_PREFIX, names.DLQ_PREFIX):
        if resource.startswith(marker):
            return marker, resource.removeprefix(marker)
    return "", resource


def wrap(namespace: str | None, resource: str) -> str:
    """The name that brokers know. System topics and groups, and what has the prefix already, stay as they are."""
    if not namespace or not resource or names.is_system_topic(resource) or names.is_system_group(resource):
        return resource
    marker, rest = _split(resource)
    if rest.startswith(namespace + SEPARATOR):
        return resource
    return f"{marker}{namespace}{SEPARATOR}{rest}"


def unwrap(namespace: str | None, resource: str) -> str:
    """The name that users know."""
    if not namespace or not resource:
        return resource
    marker, rest = _split(resource)
    return marker + rest.removeprefix(namespace + SEPARATOR)


def unwrap_any(resource: str) -> str:
    """The name without whatever namespace it is in, as trace records carry it."""
    marker, rest = _split(resource)
    at = rest.find(SEPARATOR)
    return marker + rest[at + 1 :] if at > 0 else resource


def namespace_of_address(address: str) -> str | None:
    """The namespace in the address of a hosted instance, `http://MQ_INST_1_abc.….com:80`; None for others."""
    match = _INSTANCE_ADDRESS.fullmatch(address)
    return match.group(1) if match else None
