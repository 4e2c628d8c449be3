"""AdminGate: refuses requests that change a server unless the peer may administer it.

All peers may send other requests. These peers may administer the server:

- Peers on the same host: on a loopback address, or on the address that they connect to. The kernel drops packets from other hosts with
  either of them, so a server that listens on loopback only needs no configuration.
- Peers on an address in `adminAllow`.
- Peers that have presented a client certificate, which the server has verified.

Broker and name server each have a gate.
"""

import logging
from typing import Final, Self

from headrace.model.address_list import Network, parse_address, parse_networks
from headrace.model.server_options import ServerOptions
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_access import ADMIN_CODES
from headrace.protocol.request_code import request_name
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.admission import OPEN, Admission
from headrace.remoting.connection import Connection

logger = logging.getLogger(__name__)

_UNAUTHENTICATED: Final = (
    "unauthenticated administration allowed, anyone who can reach the server may change or delete everything server=%s"
    " advice='remove allowUnauthenticatedAdmin=true and set adminAllow to the addresses of administrators'"
)


class AdminGate:
    """Admits the connections of one server. `codes`: the requests that only administrators may send."""

    def __init__(
        self,
        server: str,
        codes: frozenset[int],
        networks: tuple[Network, ...],
        *,
        is_disabled: bool,
        advice: str = "",
    ) -> None:
        """`server`: its name in remarks. `networks`: those of adminAllow. `is_disabled`: everyone may administer it.

        `advice`: alternatives to adminAllow, added to the remark.
        """
        self._server = server
        self._codes = codes
        self._networks = networks
        self._is_disabled = is_disabled
        self._advice = advice
        # One for all: it has no data of a peer.
        self._restricted = Admission(check=self.check, checks_hot_requests=False)

    @classmethod
    def from_options(cls, server: str, options: ServerOptions, advice: str = "") -> Self:
        """The gate of a server with these options. Logs a warning if everyone may administer it."""
        if options.allow_unauthenticated_admin:
            logger.warning(_UNAUTHENTICATED, server.replace(" ", ""))
        return cls(
            server,
            ADMIN_CODES,
            parse_networks("adminAllow", options.admin_allow),
            is_disabled=options.allow_unauthenticated_admin,
            advice=advice,
        )

    def admit(self, connection: Connection) -> Admission:
        """What the peer of a new connection may do."""
        return OPEN if self.is_administrator(connection) else self._restricted

    def is_administrator(self, connection: Connection) -> bool:
        """Whether the peer may administer the server, whatever account it has."""
        if self._is_disabled or connection.peer_certificate is not None:
            return True
        peer = parse_address(connection.remote_address[0])
        if peer is None:
            return False
        return (
            peer.is_loopback
            or peer == parse_address(connection.local_address)
            or any(peer in network for network in self._networks)
        )

    def may_make(self, connection: Connection, code: int) -> bool:
        """Whether the peer may send requests of this code, whatever account it has."""
        return code not in self._codes or self.is_administrator(connection)

    def check(self, connection: Connection, command: RemotingCommand) -> RemotingCommand | None:
        """The refusal of a request that changes the server; None for other requests, and for an administrator."""
        # The certificate may have been verified after the connection was admitted.
        if command.code not in self._codes or connection.peer_certificate is not None:
            return None
        return self.refuse(connection, command)

    def refuse(self, connection: Connection, command: RemotingCommand) -> RemotingCommand:
        """The answer to a peer that may not administer the server."""
        host = connection.remote_address[0]
        remark = (
            f"{request_name(command.code)} refused: {host} is not allowed to administer this {self._server};"
            f" to allow it, add {host} to adminAllow in the {self._server}'s configuration and restart{self._advice}"
        )
        return response_to(command, ResponseCode.NO_PERMISSION, remark)
