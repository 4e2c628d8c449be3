"""Which permissions a request needs (remoting spec 6.5): a table of functions by request code.

A group is represented by the topic of its retried messages, `%RETRY%group`. Requests that are not in the table need a valid signature only, those
in `ADMIN_CODES` an admin account.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from broker.access.permission import Permission
from headrace.model import names
from headrace.model.java_hash import string_hash
from headrace.protocol.bodies.heartbeat import HeartbeatData
from headrace.protocol.headers.client import GetConsumerListByGroupRequestHeader, UnregisterClientRequestHeader
from headrace.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode as Code

ADMIN_CODES: Final = frozenset({
    Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_BROKER_CONFIG, Code.DELETE_TOPIC_IN_BROKER,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP,
})  # fmt: skip
"""What RocketMQ 4.9 lets only admins do."""

Needs = Mapping[str, Permission]


def needed_permissions(command: RemotingCommand) -> Needs:
    """The permission that the request needs on each topic and group, in the order in which RocketMQ checks them.

    Raises RemoteProtocolError if the request cannot be read.
    """
    extract = _EXTRACTORS.get(command.code)
    if extract is None:
        return {}
    found = {resource: permission for resource, permission in extract(command) if resource is not None}
    return found if len(found) < 2 else {resource: found[resource] for resource in _in_java_order(found)}


_Found = Iterable[tuple[str | None, Permission]]


def _group(name: str | None) -> tuple[str | None, Permission]:
    return None if name is None else names.retry_topic(name), Permission.SUB


def _send(topic: str | None, group: str | None) -> _Found:
    if topic is not None and names.is_retry_topic(topic):
        return (_group(group),)
    return ((topic, Permission.PUB),)


def _send_v1(command: RemotingCommand) -> _Found:
    # compat: the header has a producerGroup and no group, so a send to a retry topic needs no permission.
    return _send(command.ext.get("topic"), command.ext.get("group"))


def _send_v2(command: RemotingCommand) -> _Found:
    return _send(command.ext.get("b"), command.ext.get("a"))


def _send_back(command: RemotingCommand) -> _Found:
    return (_group(command.ext.get("group")),)


def _pull(command: RemotingCommand) -> _Found:
    return (command.ext.get("topic"), Permission.SUB), _group(command.ext.get("consumerGroup"))


def _query(command: RemotingCommand) -> _Found:
    return ((command.ext.get("topic"), Permission.SUB),)


def _heartbeat(command: RemotingCommand) -> _Found:
    for consumer in HeartbeatData.decode(command.body, untrusted=True).consumer_data_set:
        yield _group(consumer.group_name)
        for subscription in consumer.subscription_data_set:
            yield subscription.topic, Permission.SUB


def _unregister(command: RemotingCommand) -> _Found:
    return (_group(UnregisterClientRequestHeader.from_ext(command.ext_fields).consumer_group),)


def _consumer_list(command: RemotingCommand) -> _Found:
    return (_group(GetConsumerListByGroupRequestHeader.from_ext(command.ext_fields).consumer_group),)


def _update_offset(command: RemotingCommand) -> _Found:
    header = UpdateConsumerOffsetRequestHeader.from_ext(command.ext_fields)
    return _group(header.consumer_group), (header.topic, Permission.SUB)


_EXTRACTORS: Final[Mapping[int, Callable[[RemotingCommand], _Found]]] = {
    Code.SEND_MESSAGE: _send_v1,
    Code.SEND_MESSAGE_V2: _send_v2,
    Code.CONSUMER_SEND_MSG_BACK: _send_back,
    Code.PULL_MESSAGE: _pull,
    Code.LITE_PULL_MESSAGE: _pull,
    Code.QUERY_MESSAGE: _query,
    Code.HEART_BEAT: _heartbeat,
    Code.UNREGISTER_CLIENT: _unregister,
    Code.GET_CONSUMER_LIST_BY_GROUP: _consumer_list,
    Code.UPDATE_CONSUMER_OFFSET: _update_offset,
}


def _in_java_order(keys: Iterable[str]) -> list[str]:
    """The keys in the order in which a Java HashMap lists them: it decides which of several missing permissions is reported."""
    keys = list(keys)
    size = 16
    while len(keys) > size * 3 // 4:
        size *= 2

    def bucket(key: str) -> int:
        code = string_hash(key) & 0xFFFFFFFF
        return (code ^ code >> 16) & size - 1

    return sorted(keys, key=bucket)
