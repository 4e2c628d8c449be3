"""Requests about offsets: committed offsets of consumers, and bounds of queues (remoting spec 4.11, 4.12)."""

from collections.abc import Callable

from broker import handler_errors
from broker.clients.offsets import OffsetTable
from broker.clients.queue_visits import QueueVisits
from headrace.protocol.headers.offset import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.query.get import MessageGetter

Bounds = Callable[[str, int], tuple[int, int]]
OffsetByTime = Callable[[str, int, int], int]
EarliestTime = Callable[[str, int], int]


class OffsetProcessor:
    """Handles queries and commits of offsets."""

    def __init__(
        self,
        offsets: OffsetTable,
        getter: MessageGetter,
        bounds: Bounds,
        offset_by_time: OffsetByTime,
        earliest_time: EarliestTime,
        visits: QueueVisits,
    ) -> None:
        self._offsets = offsets
        self._getter = getter
        self._bounds = bounds
        self._offset_by_time = offset_by_time
        self._earliest_time = earliest_time
        self._visits = visits

    def register(self, *tables: HandlerTable) -> None:
        """Serves these requests on these ports."""
        handler_errors.register(
            tables,
            {
                RequestCode.QUERY_CONSUMER_OFFSET: self.query,
                RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
                RequestCode.GET_MAX_OFFSET: self.max_offset,
                RequestCode.GET_MIN_OFFSET: self.min_offset,
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
                RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest,
            },
        )

    def query(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """The committed offset; for a group that has none, 0 on a queue whose first message is still recent.

        # compat: so a new group begins at 0 there, whatever start position it requests.
        """
        header = QueryConsumerOffsetRequestHeader.from_ext(command.ext_fields)
        offset = self._offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset < 0:
            least, _ = self._bounds(header.topic, header.queue_id)
            first = self._getter.physical_offset_at(header.topic, header.queue_id, 0)
            if least > 0 or (first >= 0 and self._getter.is_far_behind(first)):
                return response_to(
                    command,
                    ResponseCode.QUERY_NOT_FOUND,
                    f"group {header.consumer_group} has no committed offset for queue {header.queue_id} of topic {header.topic}; "
                    "the client chooses where to start",
                    {},
                )
            offset = 0
        return response_to(command, ResponseCode.SUCCESS, ext=OffsetResponseHeader(offset).to_ext())

    def update(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """Stores a committed offset, even if it decreases."""
        header = UpdateConsumerOffsetRequestHeader.from_ext(command.ext_fields)
        self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        self._visits.visited(header.consumer_group, header.topic, (header.queue_id,))
        return response_to(command, ResponseCode.SUCCESS, ext={})

    def max_offset(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """The offset after the last; 0 for a missing queue."""
        header = GetMaxOffsetRequestHeader.from_ext(command.ext_fields)
        return _offset(command, self._bounds(header.topic, header.queue_id)[1])

    def min_offset(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """The first stored queue offset; 0 for a missing queue."""
        header = GetMinOffsetRequestHeader.from_ext(command.ext_fields)
        return _offset(command, self._bounds(header.topic, header.queue_id)[0])

    def search(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """The queue offset nearest to a time."""
        header = SearchOffsetRequestHeader.from_ext(command.ext_fields)
        return _offset(command, self._offset_by_time(header.topic, header.queue_id, header.timestamp))

    def earliest(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """When the first message of the queue was stored; -1 without one."""
        header = GetEarliestMsgStoretimeRequestHeader.from_ext(command.ext_fields)
        timestamp = self._earliest_time(header.topic, header.queue_id)
        return response_to(command, ResponseCode.SUCCESS, ext=GetEarliestMsgStoretimeResponseHeader(timestamp).to_ext())


def _offset(command: RemotingCommand, offset: int) -> RemotingCommand:
    return response_to(command, ResponseCode.SUCCESS, ext=OffsetResponseHeader(offset).to_ext())
