"""Which function answers a request: a table from request code to handler.

A handler gets the connection and the command. What it returns is the answer; None means no answer, or one that it will give later with
`connection.send`. A plain function is called straight from the read and must not block; an asynchronous one becomes a task of its connection.
Requests that are one-way are never answered, whatever a handler returns.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.response_code import ResponseCode

# The connection is `headrace.remoting.connection.Connection`, which imports this module.
Handler: TypeAlias = Callable[[Any, RemotingCommand], RemotingCommand | Awaitable[RemotingCommand | None] | None]


def not_supported(_connection: Any, command: RemotingCommand) -> RemotingCommand:
    """The answer to a request code that nobody handles: code 3 (remoting spec 1.8)."""
    # compat: tools of the field look for this text, blank in front included.
    remark = f" request type {command.code} not supported"
    return response_to(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


class HandlerTable:
    """Handlers by request code, with one for all codes that are not in it."""

    def __init__(self, default: Handler = not_supported) -> None:
        self._default = default
        self._handlers: dict[int, Handler] = {}

    def register(self, code: int, handler: Handler) -> None:
        """Lets `handler` answer the requests of a code. Each code is given once."""
        if code in self._handlers:
            raise ValueError(f"request code {int(code)} has a handler already")
        self._handlers[int(code)] = handler

    def handler_for(self, code: int) -> Handler:
        """The handler of a code, or the default one."""
        return self._handlers.get(code, self._default)

    def codes(self) -> frozenset[int]:
        """The codes that have a handler of their own."""
        return frozenset(self._handlers)
