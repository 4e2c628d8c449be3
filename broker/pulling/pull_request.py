"""PullRequest: a pull as its client sent it; immutable, however often a held pull is evaluated."""

from msgspec import Struct

from headrace.protocol.headers.pull import PullMessageRequestHeader
from headrace.protocol.remoting_command import RemotingCommand
from headrace.remoting.connection import Connection


class PullRequest(Struct, frozen=True):
    """Who pulls, and what. The response to `command` is sent on `connection`."""

    connection: Connection
    command: RemotingCommand
    header: PullMessageRequestHeader
