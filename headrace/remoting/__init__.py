"""Commands carried over asyncio: a server, a client, and the connection that both are made of.

    socket ──► Channel ──► Connection ──► HandlerTable ──► your handler
                  ▲            │ HotPath                       │
                  └────────────┴── one write for each read ◄───┘

A connection is symmetric, as in RocketMQ: both sides may ask, each matches answers against its own questions. Nothing here
knows what a request means, and nothing starts a thread. Objects belong to the loop that they were made in.
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
