"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: orderly consumers lock their queues (remoting spec 4.17)."""

from broker import handler_errors
from broker.clients.queue_visits import QueueVisits
from broker.clients.rebalance_locks import RebalanceLocks
from headrace.errors import RemoteProtocolError
from headrace.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable


class LockProcessor:
    """Answers the two requests."""

    def __init__(self, locks: RebalanceLocks, visits: QueueVisits) -> None:
        self._locks = locks
        self._visits = visits

    def register(self, *tables: HandlerTable) -> None:
        """Serves them on these ports."""
        handler_errors.register(
            tables, {RequestCode.LOCK_BATCH_MQ: self.lock, RequestCode.UNLOCK_BATCH_MQ: self.unlock}
        )

    def lock(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """Locks the free queues; returns the queues that the client owns now."""
        group, client_id, body = _parse(command)
        owned = self._locks.lock(group, client_id, body.mq_set)
        for queue in owned:
            self._visits.visited(group, queue.topic, (queue.queue_id,))
        return response_to(command, ResponseCode.SUCCESS, body=LockBatchResponseBody(owned).encode())

    def unlock(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """Unlocks the client's queues."""
        group, client_id, body = _parse(command)
        self._locks.unlock(group, client_id, body.mq_set)
        return response_to(command, ResponseCode.SUCCESS)


def _parse(command: RemotingCommand) -> tuple[str, str, LockBatchRequestBody]:
    body = LockBatchRequestBody.decode(command.body, untrusted=True)
    if body.consumer_group is None or body.client_id is None:
        raise RemoteProtocolError("the body must contain consumerGroup and clientId")
    return body.consumer_group, body.client_id, body
