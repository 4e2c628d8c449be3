"""Endpoint: the data that all connections of one listener or client share.

A connection has little beyond a reference to it, so that ten thousand idle ones cost little.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct, field

from headrace.model.connection_limits import ConnectionLimits
from headrace.remoting.address_rate import AddressRate
from headrace.remoting.admission import Admission
from headrace.remoting.buffer_budget import BufferBudget
from headrace.remoting.client_usage import ClientUsages
from headrace.remoting.deadlines import Deadlines
from headrace.remoting.fault_log import FaultLog
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.server_tls import ServerTls
from headrace.remoting.turns import Turns

# In all of these `Any` is `headrace.remoting.connection.Connection` (or its HotPath, or Channel), which import this module.
OnOpen: TypeAlias = Callable[[Any], None]
OnClose: TypeAlias = Callable[[Any, str], None]
Admit: TypeAlias = Callable[[Any], Admission]
MakeHotPath: TypeAlias = Callable[[Any], Any]


class Endpoint(Struct):
    """Loop, handlers, hooks, limits and the connections.

    `always_reads`: its connections read even while data waits to be sent; true for outgoing connections. `budget`, `faults`, `usages` and `turns` are shared by
    all listeners of a server; without `turns` the loop's time is not divided. `admit(connection)` is called before `on_open`; without it everything is
    allowed. `on_close` is passed the reason. `make_hot_path(connection)` creates the handler of the most common frames of a connection.
    """

    loop: asyncio.AbstractEventLoop
    handlers: HandlerTable
    deadlines: Deadlines
    channels: set[Any] = field(default_factory=set)
    """All channels, open or closing."""
    connections: set[Any] = field(default_factory=set)
    """The connections passed to `on_open`."""
    make_hot_path: MakeHotPath | None = None
    on_open: OnOpen | None = None
    on_close: OnClose | None = None
    admit: Admit | None = None
    budget: BufferBudget = field(default_factory=BufferBudget)
    faults: FaultLog = field(default_factory=FaultLog)
    always_reads: bool = False
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    usages: ClientUsages = field(default_factory=ClientUsages)
    turns: Turns | None = None
    reader: Any = None
    """The SocketReader of a server's connections, which imports Channel; None: transports read."""
    new_connections: AddressRate = field(default_factory=AddressRate)
    """Connections that each address opens per minute."""
    new_handshakes: AddressRate = field(default_factory=AddressRate)
    """TLS handshakes that each address begins per minute."""
    handler_errors: int = 0
    """How many requests failed because their handler raised; mistakes of peers do not count."""
    refused_requests: int = 0
    """How many requests were refused because the peer's admission does not allow them."""
    bad_frames: int = 0
    """How many connections were closed because their data was not a valid frame."""
    tls: ServerTls | None = None
    """TLS of incoming connections; None: plain text only."""
    tls_failures: int = 0
    """How many connections were closed because their TLS handshake failed."""
