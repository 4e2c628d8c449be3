"""How an administrative request is answered when all goes well, when it cannot be read, and when the disk refuses.

A handler here takes the command and returns the answer; it knows no connection.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from headrace.errors import RemoteProtocolError
from headrace.protocol.json_bean import JsonBody
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode, request_name
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.handlers import Handler, HandlerTable

_logger = logging.getLogger(__name__)

AdminHandler: TypeAlias = Callable[[RemotingCommand], RemotingCommand | Awaitable[RemotingCommand]]


class AdminFamily(Protocol):
    """A class of this package."""

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """Which requests it answers, and how."""


def register(table: HandlerTable, families: Iterable[AdminFamily]) -> None:
    """Lets the families answer their requests. Raises ValueError if two answer the same."""
    for family in families:
        for code, handler in family.handlers().items():
            table.register(code, _guarded(handler))


def done(command: RemotingCommand, remark: str | None = None) -> RemotingCommand:
    """The answer: done, nothing to tell."""
    return response_to(command, ResponseCode.SUCCESS, remark)


def tell(command: RemotingCommand, body: JsonBody) -> RemotingCommand:
    """The answer with a body."""
    return response_to(command, ResponseCode.SUCCESS, body=body.encode())


def tell_text(command: RemotingCommand, text: str, ext: dict[str, str] | None = None) -> RemotingCommand:
    """The answer with a text for its body."""
    return response_to(command, ResponseCode.SUCCESS, None, ext, text.encode())


def refuse(command: RemotingCommand, code: ResponseCode, remark: str) -> RemotingCommand:
    """The answer: no, and why."""
    return response_to(command, code, remark)


def _guarded(handler: AdminHandler) -> Handler:
    """The handler with those failures answered that a peer or a disk can cause; others are the connection's to log."""

    def answer(_connection: Any, command: RemotingCommand) -> RemotingCommand | Awaitable[RemotingCommand | None]:
        try:
            result = handler(command)
        except (RemoteProtocolError, OSError) as error:
            return _failure(command, error)
        return result if isinstance(result, RemotingCommand) else finish(command, result)

    async def finish(command: RemotingCommand, result: Awaitable[RemotingCommand]) -> RemotingCommand:
        try:
            return await result
        except (RemoteProtocolError, OSError) as error:
            return _failure(command, error)

    return answer


def _failure(command: RemotingCommand, error: RemoteProtocolError | OSError) -> RemotingCommand:
    if isinstance(error, RemoteProtocolError):
        remark = f"{request_name(command.code)} cannot be read: {error}"
    else:
        remark = f"{request_name(command.code)} was not carried out, nothing has changed: {error}"
        _logger.warning("request not carried out code=%d: %s", command.code, error)
    return refuse(command, ResponseCode.SYSTEM_ERROR, remark)
