"""Namespaces: a prefix of topics and groups that clients add and remove. To brokers it is a part of the name (client spec 1.9).

In the namespace `ns`, brokers know the topic `Orders` as `ns%Orders`, and `%RETRY%group` as `%RETRY%ns%group`.
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
    """Adds the namespace to a name. System topics and groups, and names that have it already, are not changed."""
    if not namespace or not resource or names.is_system_topic(resource) or names.is_system_group(resource):
        return resource
    marker, rest = _split(resource)
    if rest.startswith(namespace + SEPARATOR):
        return resource
    return f"{marker}{namespace}{SEPARATOR}{rest}"


def unwrap(namespace: str | None, resource: str) -> str:
    """Removes the namespace from a name."""
    if not namespace or not resource:
        return resource
    marker, rest = _split(resource)
    return marker + rest.removeprefix(namespace + SEPARATOR)


def unwrap_any(resource: str) -> str:
    """Removes any namespace from a name, as in trace records."""
    marker, rest = _split(resource)
    at = rest.find(SEPARATOR)
    return marker + rest[at + 1 :] if at > 0 else resource


def namespace_of_address(address: str) -> str | None:
    """Returns the namespace in the address of a hosted instance, `http://MQ_INST_1_abc.….com:80`; None for other addresses."""
    match = _INSTANCE_ADDRESS.fullmatch(address)
    return match.group(1) if match else None
