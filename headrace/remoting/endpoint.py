"""What all connections of one listener or client have in common.

A connection holds a reference to this and little else, so that ten thousand silent ones cost little.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headrace.model.connection_limits import ConnectionLimits
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


@dataclass(slots=True)
class Endpoint:
    """Loop, handlers, hooks and the connections themselves.

    `always_reads`: its connections read whatever waits to be sent on them; those of clients do. `budget`, `faults`, `usages` and `turns` are those of
    all listeners of a server; without `turns` nobody waits for others. `admit(connection)` is called before `on_open`; without it everything is allowed. `on_close` is given the reason.
    `make_hot_path(connection)` makes what handles the most common frames of each connection in a shorter way.
    """

    loop: asyncio.AbstractEventLoop
    handlers: HandlerTable
    deadlines: Deadlines
    channels: set[Any] = field(default_factory=set)
    """All channels, open ones and those that are being closed."""
    connections: set[Any] = field(default_factory=set)
    """The connections that were announced."""
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
    handler_errors: int = 0
    """How many requests failed because their handler raised; a peer's own mistakes do not count."""
    refused_requests: int = 0
    """How many requests were refused because the peer's admission does not allow them."""
    bad_frames: int = 0
    """How many connections were closed because what they brought were no frames."""
    tls: ServerTls | None = None
    """TLS of connections that are accepted; None: plain text only."""
    tls_failures: int = 0
    """How many connections were closed because their TLS handshake failed."""
