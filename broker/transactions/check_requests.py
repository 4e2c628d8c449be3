"""CheckRequests: asks a producer for the state of a transaction: CHECK_TRANSACTION_STATE, one-way (store spec 11.6)."""

import logging
from collections.abc import Callable
from dataclasses import replace

from broker.clients.clients import Client
from headrace.model import properties
from headrace.model.message import MessageExt
from headrace.protocol.headers.transaction import CheckTransactionStateRequestHeader
from headrace.protocol.record import encode_message
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode
from headrace.remoting.connection import Connection

logger = logging.getLogger(__name__)

_TRIES = 3  # compat: so many connections are tried for one that accepts requests


class CheckRequests:
    """Sends the request to one producer of the group, rotating over them. `producers(group)` are the connected ones."""

    def __init__(self, producers: Callable[[str], list[Client]]) -> None:
        self._producers = producers
        self._turn = 0

    def ask(self, half: MessageExt) -> bool:
        """Returns whether a producer was connected. `half` has the offsets of its newest copy, which the producer will return."""
        group = half.properties.get(properties.PRODUCER_GROUP, "")
        connection = self._find_connection(group)
        topic = half.properties.get(properties.REAL_TOPIC)
        if connection is None or topic is None:
            logger.info(
                "transaction not checked, no producer connected group=%s queue_offset=%d",
                group,
                half.queue_offset,
            )
            return False
        unique_id = half.unique_id
        header = CheckTransactionStateRequestHeader(
            half.queue_offset, half.physical_offset, unique_id, unique_id, half.offset_message_id
        )
        shown = replace(half, topic=topic, queue_id=int(half.properties.get(properties.REAL_QUEUE_ID, "0")))
        connection.send_oneway(
            create_request(RequestCode.CHECK_TRANSACTION_STATE, header.to_ext(), encode_message(shown))
        )
        return True

    def _find_connection(self, group: str) -> Connection | None:
        connections = [client.connection for client in self._producers(group)]
        self._turn += 1
        last_open: Connection | None = None
        for step in range(min(_TRIES, len(connections))):
            connection = connections[(self._turn + step) % len(connections)]
            if connection.is_closed:
                continue
            if not connection.is_held:
                return connection
            last_open = connection
        return last_open
