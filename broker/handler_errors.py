"""Registers request handlers so that an unreadable request or a disk error gets a response with code 1 and a remark, without a stack trace.

Both are the doing of others, a peer or a disk, and may come with every request; whatever else a handler raises is a broken
promise of ours and stays the connection's to log. Every processor registers through here.
"""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any

from headrace.errors import RemoteProtocolError
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, response_to
from headrace.protocol.request_code import request_name
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.handlers import Handler, HandlerTable

logger = logging.getLogger(__name__)

Failure = RemoteProtocolError | OSError
FAILURES = (RemoteProtocolError, OSError)


def register(tables: tuple[HandlerTable, ...], handlers: Mapping[int, Handler]) -> None:
    """Lets these handlers, guarded, answer their request codes on these ports."""
    for code, handler in handlers.items():
        answer = guarded(handler)
        for table in tables:
            table.register(code, answer)


def guarded(handler: Handler) -> Handler:
    """The handler with its FAILURES answered."""

    def answer(connection: Any, command: RemotingCommand) -> RemotingCommand | Awaitable[RemotingCommand | None] | None:
        try:
            result = handler(connection, command)
        except FAILURES as error:
            return _failed(command, error)
        return result if result is None or isinstance(result, RemotingCommand) else finish(command, result)

    async def finish(command: RemotingCommand, result: Awaitable[RemotingCommand | None]) -> RemotingCommand | None:
        try:
            return await result
        except FAILURES as error:
            return _failed(command, error)

    return answer


def failure_remark(command: RemotingCommand, error: Failure) -> str:
    """What to tell the peer; a disk that refuses is also logged, in one line."""
    if isinstance(error, RemoteProtocolError):
        return f"{request_name(command.code)} cannot be read: {error}"
    logger.warning("request failed code=%d error=%s", command.code, error)
    return f"{request_name(command.code)} failed: {error}; check that the broker's disk is writable and not full"


def _failed(command: RemotingCommand, error: Failure) -> RemotingCommand:
    answer = response_to(command, ResponseCode.SYSTEM_ERROR, failure_remark(command, error))
    # compat: the answer to a request whose handler threw is always JSON (remoting spec 1.5).
    answer.serialize_type = SerializeType.JSON
    return answer
