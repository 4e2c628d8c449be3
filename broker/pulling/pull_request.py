"""PullRequest: a pull as its client sent it. It never changes, however often a held one is evaluated."""

from dataclasses import dataclass

from headrace.protocol.headers.pull import PullMessageRequestHeader
from headrace.protocol.remoting_command import RemotingCommand
from headrace.remoting.connection import Connection


@dataclass(frozen=True, slots=True)
class PullRequest:
    """Who pulls, and what. Answers to `command` are sent on `connection`."""

    connection: Connection
    command: RemotingCommand
    header: PullMessageRequestHeader
