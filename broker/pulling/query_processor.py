"""QUERY_MESSAGE by key and VIEW_MESSAGE_BY_ID by physical offset (remoting spec 4.13).

A unique id without a topic is searched in all topics, unlike in RocketMQ, which finds nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable

from broker import handler_errors
from headrace.protocol.headers.query import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.config import StoreConfig
from store.query.by_key import KeyQueryResult

QueryByKey = Callable[[str, str, int, int, int], KeyQueryResult]
ViewByOffset = Callable[[int], bytes | None]

_TOPICS_AT_ONCE = 16  # limit: a few milliseconds of searching indexes, during which other requests wait


class QueryProcessor:
    """Answers queries. `by_key(topic, key, most, begin_ms, end_ms)`; `by_offset(physical_offset)` returns None if there is no record.

    `topics()` are the names of all topics.
    """

    def __init__(
        self,
        by_key: QueryByKey,
        by_offset: ViewByOffset,
        config: StoreConfig,
        topics: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._by_key = by_key
        self._by_offset = by_offset
        self._config = config
        self._topics = topics

    def register(self, *tables: HandlerTable) -> None:
        """Serves these requests on these ports."""
        handler_errors.register(
            tables, {RequestCode.QUERY_MESSAGE: self.query, RequestCode.VIEW_MESSAGE_BY_ID: self.view}
        )

    def query(
        self, _connection: Connection, command: RemotingCommand
    ) -> RemotingCommand | Coroutine[None, None, RemotingCommand]:
        """Messages of a topic with a key, within a range of store times."""
        header = QueryMessageRequestHeader.from_ext(command.ext_fields)
        if header.unique_key_query and not header.topic:
            return self._query_all(command, header)
        most = self._config.default_query_max_num if header.unique_key_query else header.max_num
        return _told(
            command,
            header,
            self._by_key(header.topic, header.key, most, header.begin_timestamp, header.end_timestamp),
        )

    async def _query_all(self, command: RemotingCommand, header: QueryMessageRequestHeader) -> RemotingCommand:
        """The messages with an id in the first topic that has any."""
        most = self._config.default_query_max_num
        for number, topic in enumerate(sorted(self._topics()), 1):
            found = self._by_key(topic, header.key, most, header.begin_timestamp, header.end_timestamp)
            if found.body:
                return _told(command, header, found)
            if number % _TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return _told(command, header, KeyQueryResult(b"", 0, 0))

    def view(self, _connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """The one message at a physical offset."""
        header = ViewMessageRequestHeader.from_ext(command.ext_fields)
        body = self._by_offset(header.offset)
        if body is None:
            return response_to(
                command,
                ResponseCode.SYSTEM_ERROR,
                f"can not find message by the offset, {header.offset}: no record begins there; it may have expired",
            )
        return _as_json(response_to(command, ResponseCode.SUCCESS, body=body))


def _told(command: RemotingCommand, header: QueryMessageRequestHeader, found: KeyQueryResult) -> RemotingCommand:
    if not found.body:
        where = f"no message of topic {header.topic}" if header.topic else "no message"
        return response_to(
            command,
            ResponseCode.QUERY_NOT_FOUND,
            f"can not find message: {where} has the key {header.key} in this time range; "
            "widen it, and check that messageIndexEnable=true",
            # compat: if nothing was found, RocketMQ does not return the progress of the index.
            QueryMessageResponseHeader(0, 0).to_ext(),
        )
    ext = QueryMessageResponseHeader(found.last_update_timestamp, found.last_update_physical_offset).to_ext()
    return _as_json(response_to(command, ResponseCode.SUCCESS, ext=ext, body=found.body))


def _as_json(answer: RemotingCommand) -> RemotingCommand:
    # compat: these two successful responses have a JSON header, whatever the request's was (remoting spec 1.5).
    answer.serialize_type = SerializeType.JSON
    return answer
