"""AdminHandler: a function that takes an admin request and returns its response; with the responses that they share.

A handler does not see the connection. `broker.handler_errors` answers unreadable requests and disk errors, as everywhere.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from broker import handler_errors
from headrace.protocol.json_bean import JsonBody
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.handlers import Handler, HandlerTable

AdminHandler: TypeAlias = Callable[[RemotingCommand], RemotingCommand | Awaitable[RemotingCommand]]


class AdminProcessor(Protocol):
    """A class that handles a family of admin requests."""

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The handlers by request code."""


def register(table: HandlerTable, processors: Iterable[AdminProcessor]) -> None:
    """Registers the processors' handlers. Raises ValueError if two handle the same request."""
    for processor in processors:
        handler_errors.register(
            (table,), {code: _without_connection(one) for code, one in processor.handlers().items()}
        )


def done(command: RemotingCommand, remark: str | None = None) -> RemotingCommand:
    """The response of success without a body."""
    return response_to(command, ResponseCode.SUCCESS, remark)


def respond(command: RemotingCommand, body: JsonBody) -> RemotingCommand:
    """The response of success with a body."""
    return response_to(command, ResponseCode.SUCCESS, body=body.encode())


def respond_text(command: RemotingCommand, text: str, ext: dict[str, str] | None = None) -> RemotingCommand:
    """The response of success with a text as its body."""
    return response_to(command, ResponseCode.SUCCESS, None, ext, text.encode())


def refuse(command: RemotingCommand, code: ResponseCode, remark: str) -> RemotingCommand:
    """The refusal with its reason."""
    return response_to(command, code, remark)


def _without_connection(handler: AdminHandler) -> Handler:
    def answer(_connection: Any, command: RemotingCommand) -> RemotingCommand | Awaitable[RemotingCommand | None]:
        return handler(command)

    return answer
