"""SlaveHandlerTable: the handlers of a slave's port, where the requests that only a master serves are refused.

So no processor has to know whether its broker is a slave. Sends are not listed: their processor refuses them as on a master that cannot write.
"""

from collections.abc import Mapping
from typing import Any, Final

from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode as Code
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.handlers import Handler, HandlerTable

_READ_ONLY: Final = (
    ResponseCode.SYSTEM_ERROR,
    "Can't modify topic or subscription group from slave broker, please execute it from master broker.",  # RocketMQ's
)

REFUSED: Final[Mapping[int, tuple[ResponseCode, str]]] = {
    Code.UPDATE_AND_CREATE_TOPIC: _READ_ONLY,
    Code.DELETE_TOPIC_IN_BROKER: _READ_ONLY,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _READ_ONLY,
    Code.DELETE_SUBSCRIPTIONGROUP: _READ_ONLY,
    Code.END_TRANSACTION: (
        ResponseCode.SLAVE_NOT_AVAILABLE,
        "a slave cannot end a transaction; send this request to the master",
    ),
    Code.RECALL_MESSAGE: (
        ResponseCode.SLAVE_NOT_AVAILABLE,
        "a slave cannot cancel messages; send this request to the master",
    ),
}
"""What a slave answers, by request code."""


class SlaveHandlerTable(HandlerTable):
    """Registers a refusal in place of the handler of each request in `REFUSED`."""

    def register(self, code: int, handler: Handler) -> None:
        """As `HandlerTable.register`."""
        super().register(code, _refuse if code in REFUSED else handler)


def _refuse(_connection: Any, command: RemotingCommand) -> RemotingCommand:
    return response_to(command, *REFUSED[command.code])
