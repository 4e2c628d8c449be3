"""The options that broker and name server share: connections, their limits, and who may administer the server."""

from dataclasses import dataclass

from headrace.model.address_list import parse_networks
from headrace.model.buffer_limit import DEFAULT_LIMIT, check_limit
from headrace.model.connection_limits import (
    DEFAULT_FRAME_SIZE,
    DEFAULT_HANDSHAKES,
    DEFAULT_HEADER_SIZE,
    DEFAULT_NEW_CONNECTIONS,
    DEFAULT_NEW_HANDSHAKES,
    DEFAULT_REQUESTS_PER_ACCOUNT,
    DEFAULT_REQUESTS_PER_CONNECTION,
    LEAST_FRAME_SIZE,
    LEAST_HEADER_SIZE,
    MAX_CONNECTION_BUFFER_BYTES,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_ADDRESS,
    MAX_FRAME_SIZE,
    MAX_HANDSHAKES,
    MAX_HEADER_SIZE,
    MAX_NEW_CONNECTIONS,
    MAX_NEW_HANDSHAKES,
    MAX_REQUESTS_PER_ACCOUNT,
    MAX_REQUESTS_PER_CONNECTION,
    MOST_CONNECTIONS,
    ConnectionLimits,
)
from headrace.model.option import check_range, option


@dataclass(frozen=True)
class ServerOptions:
    """The base of a server's configuration. Raises ValueError, which names the option and the range, for an invalid limit."""

    server_channel_max_idle_time_seconds: int = option(120, help="Time after which an idle connection is closed (s).")
    max_connection_buffer_bytes: int = option(
        DEFAULT_LIMIT,
        help="Maximum memory of all connections of the role together, for incomplete frames, waiting requests and unsent answers (bytes, at"
        " least 67108864). When it is used up, large frames wait, then idle connections are closed.",
    )
    max_connections: int = option(
        0,
        help="Maximum number of connections; 0: three quarters of the open file limit, at most 100000. Further connections are closed.",
    )
    max_connections_per_address: int = option(
        0,
        help="Maximum number of connections per address (IPv6: per /64 network); 0: three quarters of maxConnections. Further connections are"
        " closed.",
    )
    max_frame_size: int = option(
        DEFAULT_FRAME_SIZE,
        help="Maximum size of a frame (bytes, 1048576 to 16777216). A connection that sends a larger one is closed.",
    )
    max_header_size: int = option(
        DEFAULT_HEADER_SIZE,
        help="Maximum size of a request's header (bytes, 65536 to 16777216). A connection that sends a larger one is closed.",
    )
    max_requests_per_connection: int = option(
        DEFAULT_REQUESTS_PER_CONNECTION,
        help="Maximum number of requests in progress per connection. No more are read until some are answered.",
    )
    max_requests_per_account: int = option(
        DEFAULT_REQUESTS_PER_ACCOUNT,
        help="Maximum number of requests in progress per account, or per address without an account. Further requests are answered with"
        " SYSTEM_BUSY.",
    )
    max_new_connections_per_minute: int = option(
        DEFAULT_NEW_CONNECTIONS,
        help="Maximum number of connections that one address (IPv6: one /64 network) may open per minute. Further connections are closed.",
    )
    max_tls_handshakes: int = option(
        DEFAULT_HANDSHAKES,
        help="Maximum number of TLS handshakes in progress per address. Further connections are closed.",
    )
    max_tls_handshakes_per_minute: int = option(
        DEFAULT_NEW_HANDSHAKES,
        help="Maximum number of TLS handshakes that one address may begin per minute. Further connections are closed.",
    )
    admin_allow: str = option(
        "",
        help="Addresses and networks, separated by commas, from which admin requests are allowed. The server's own host is always allowed.",
    )
    allow_unauthenticated_admin: bool = option(
        False,
        help="Whether everyone who can reach the server may send admin requests; a warning is logged at each start.",
    )

    def __post_init__(self) -> None:
        """Checks the ranges."""
        check_limit(self.max_connection_buffer_bytes, MAX_CONNECTION_BUFFER_BYTES)
        parse_networks("adminAllow", self.admin_allow)
        for name, value, least, most in (
            (MAX_CONNECTIONS, self.max_connections, 0, None),
            (MAX_CONNECTIONS_PER_ADDRESS, self.max_connections_per_address, 0, None),
            (MAX_FRAME_SIZE, self.max_frame_size, LEAST_FRAME_SIZE, DEFAULT_FRAME_SIZE),
            (MAX_HEADER_SIZE, self.max_header_size, LEAST_HEADER_SIZE, DEFAULT_FRAME_SIZE),
            (MAX_REQUESTS_PER_CONNECTION, self.max_requests_per_connection, 1, None),
            (MAX_REQUESTS_PER_ACCOUNT, self.max_requests_per_account, 1, None),
            (MAX_NEW_CONNECTIONS, self.max_new_connections_per_minute, 1, None),
            (MAX_HANDSHAKES, self.max_tls_handshakes, 1, None),
            (MAX_NEW_HANDSHAKES, self.max_tls_handshakes_per_minute, 1, None),
        ):
            check_range(name, value, least, most)

    def connection_limits(self, open_files: int) -> ConnectionLimits:
        """The limits of a process that may open `open_files` descriptors, a quarter of which are reserved for other files."""
        possible = open_files - open_files // 4
        most = min(self.max_connections or MOST_CONNECTIONS, possible)
        return ConnectionLimits(
            most,
            min(self.max_connections_per_address or most - most // 4, most),
            self.max_frame_size,
            self.max_header_size,
            self.max_requests_per_connection,
            self.max_requests_per_account,
            self.max_new_connections_per_minute,
            self.max_tls_handshakes,
            self.max_tls_handshakes_per_minute,
        )
