"""Commands over asyncio: a server, a client, and the connection that both use.

    socket ──► Channel ──► Connection ──► HandlerTable ──► your handler
                  ▲            │ HotPath                       │
                  └────────────┴── one write for each read ◄───┘

A connection is symmetric, as in RocketMQ: both sides may send requests, and each matches responses to its own requests. This package does not
depend on the meaning of requests and starts no threads. Objects belong to the loop in which they were created.
"""

from headrace.remoting.admission import OPEN, Admission
from headrace.remoting.client import RemotingClient
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import Handler, HandlerTable, not_supported
from headrace.remoting.server import RemotingServer

__all__ = [
    "OPEN",
    "Admission",
    "Connection",
    "Handler",
    "HandlerTable",
    "RemotingClient",
    "RemotingServer",
    "not_supported",
]
