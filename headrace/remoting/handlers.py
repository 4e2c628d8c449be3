"""HandlerTable: the handlers of requests, by request code.

A handler is called with the connection and the command, and returns the answer; None means no answer, or one that it sends later with
`connection.send`. A plain function is called directly from the read and must not block; a coroutine function becomes a task of its connection.
One-way requests are never answered, whatever the handler returns.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.response_code import ResponseCode

# The connection is `headrace.remoting.connection.Connection`, which imports this module.
Handler: TypeAlias = Callable[[Any, RemotingCommand], RemotingCommand | Awaitable[RemotingCommand | None] | None]


def not_supported(_connection: Any, command: RemotingCommand) -> RemotingCommand:
    """The answer to a request code without a handler: code 3 (remoting spec 1.8)."""
    # compat: existing tools search for this text, including the leading space.
    remark = f" request type {command.code} not supported"
    return response_to(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


class HandlerTable:
    """Handlers by request code, with a default for all other codes."""

    def __init__(self, default: Handler = not_supported) -> None:
        self._default = default
        self._handlers: dict[int, Handler] = {}

    def register(self, code: int, handler: Handler) -> None:
        """Registers the handler of a code. Each code can be registered once."""
        if code in self._handlers:
            raise ValueError(f"request code {int(code)} already has a handler")
        self._handlers[int(code)] = handler

    def handler_for(self, code: int) -> Handler:
        """The handler of a code, or the default one."""
        return self._handlers.get(code, self._default)

    def codes(self) -> frozenset[int]:
        """The codes that have a handler of their own."""
        return frozenset(self._handlers)
