"""Admission: who the peer of a connection is, and what it may do.

Every connection has exactly one, and every path of requests consults it: the plain path for each request, a hot path once for each batch
of frames. An admission is immutable. When more is known about the peer (its certificate, its signature), the connection gets
another one, which applies from the next frame on; requests admitted before are still answered.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from headrace.protocol.remoting_command import RemotingCommand

# `Any` is `headrace.remoting.connection.Connection`, which imports this module.
Check: TypeAlias = Callable[[Any, RemotingCommand], RemotingCommand | None]


class Admission(Struct, frozen=True):
    """What a peer is allowed."""

    account: str | None = None
    """Its account; None if unknown. All connections of an account, or of an address without one, share some limits (`client_usage`)."""
    check: Check | None = None
    """Called for each request first. It returns the refusal, or None to let the request pass.

    None instead of a function: every request is allowed.
    """
    checks_hot_requests: bool = True
    """Whether `check` must also be called for sends and pulls, so that hot paths cannot be used. False: it would let all of them pass."""
    signatures: Any = None
    """The accounts by which sends and pulls must be signed, for hot paths; None: they need no signature."""


OPEN: Final = Admission()
"""Everything is allowed, within the general limits."""
