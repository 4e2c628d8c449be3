"""Registers request handlers so that an unreadable request or a disk error gets a response with code 1 and a remark, without a stack trace.
A request that has reached a limit gets SYSTEM_BUSY.

Both are caused by a peer or a disk, and may occur with every request; any other exception of a handler is an
internal error, which the connection logs. Every processor registers through here.
"""

import logging
from collections.abc import Awaitable, Mapping

from broker.errors import LimitReached
from headrace.errors import RemoteProtocolError
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, response_to
from headrace.protocol.request_code import request_name
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import Handler, HandlerTable

logger = logging.getLogger(__name__)

Failure = RemoteProtocolError | OSError
FAILURES = (RemoteProtocolError, OSError)


def register(tables: tuple[HandlerTable, ...], handlers: Mapping[int, Handler]) -> None:
    """Registers these handlers, with error handling, for their request codes on these ports."""
    for code, handler in handlers.items():
        answer = guarded(handler)
        for table in tables:
            table.register(code, answer)


def guarded(handler: Handler) -> Handler:
    """The handler, with responses for its FAILURES."""

    def answer(
        connection: Connection, command: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand | None] | None:
        try:
            result = handler(connection, command)
        except FAILURES as error:
            return _failed(connection, command, error)
        return result if result is None or isinstance(result, RemotingCommand) else finish(connection, command, result)

    async def finish(
        connection: Connection, command: RemotingCommand, result: Awaitable[RemotingCommand | None]
    ) -> RemotingCommand | None:
        try:
            return await result
        except FAILURES as error:
            return _failed(connection, command, error)

    return answer


def failure_answer(connection: Connection, command: RemotingCommand, error: Failure) -> tuple[ResponseCode, str]:
    """What to tell the peer. A limit that was reached is counted, and a disk that refuses is logged, in one line."""
    if isinstance(error, LimitReached):
        connection.limit_reached(error.limit, str(error))
        return ResponseCode.SYSTEM_BUSY, str(error)
    return ResponseCode.SYSTEM_ERROR, _remark(command, error)


def _remark(command: RemotingCommand, error: Failure) -> str:
    if isinstance(error, RemoteProtocolError):
        return f"{request_name(command.code)} cannot be read: {error}"
    logger.warning("request failed code=%d error=%r", command.code, str(error))
    return f"{request_name(command.code)} failed: {error}; check that the broker's disk is writable and not full"


def _failed(connection: Connection, command: RemotingCommand, error: Failure) -> RemotingCommand:
    answer = response_to(command, *failure_answer(connection, command, error))
    # compat: the answer to a request whose handler threw is always JSON (remoting spec 1.5).
    answer.serialize_type = SerializeType.JSON
    return answer
