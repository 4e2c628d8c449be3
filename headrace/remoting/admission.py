"""Admission: who the peer of a connection is, and what it may do.

Every connection has exactly one, and every path of requests consults it: the plain path for each request, a hot path once for each batch
of frames. An admission never changes. Whoever learns more about the peer (its certificate, its signature) gives the connection
another one, which counts from the next frame on; what was admitted before is still answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from headrace.protocol.remoting_command import RemotingCommand

# `Any` is `headrace.remoting.connection.Connection`, which imports this module.
Check: TypeAlias = Callable[[Any, RemotingCommand], RemotingCommand | None]


@dataclass(frozen=True, slots=True)
class Admission:
    """What the owner of a listener or client allows a peer."""

    account: str | None = None
    """Who it is; None: nobody has said. All connections of an account, or of an address without one, share some limits (`client_usage`)."""
    check: Check | None = None
    """Sees each request first. What it returns is the answer; None lets the request through.

    None in its place: every request is allowed.
    """
    checks_hot_requests: bool = True
    """Whether `check` has to see sends and pulls as well, so that hot paths are not taken. False: it lets all of them through."""
    signatures: Any = None
    """Where hot paths look up the accounts by which sends and pulls have to be signed; None: they need no signature."""


OPEN: Final = Admission()
"""Everything is allowed, within the limits for all."""
