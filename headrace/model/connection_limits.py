"""The limits of a server's connections: how many, how large their frames, how many requests at a time.

Their options are in `server_options`, the limit of memory in `buffer_limit`.
"""

from typing import Final

from msgspec import Struct

MAX_CONNECTIONS: Final = "maxConnections"
MAX_CONNECTIONS_PER_ADDRESS: Final = "maxConnectionsPerAddress"
MAX_FRAME_SIZE: Final = "maxFrameSize"
MAX_HEADER_SIZE: Final = "maxHeaderSize"
MAX_REQUESTS_PER_CONNECTION: Final = "maxRequestsPerConnection"
MAX_REQUESTS_PER_ACCOUNT: Final = "maxRequestsPerAccount"
MAX_CONNECTION_BUFFER_BYTES: Final = "maxConnectionBufferBytes"
MAX_NEW_CONNECTIONS: Final = "maxNewConnectionsPerMinute"
MAX_HANDSHAKES: Final = "maxTlsHandshakes"
MAX_NEW_HANDSHAKES: Final = "maxTlsHandshakesPerMinute"

OPTIONS: Final = (
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_ADDRESS,
    MAX_NEW_CONNECTIONS,
    MAX_HANDSHAKES,
    MAX_NEW_HANDSHAKES,
    MAX_FRAME_SIZE,
    MAX_HEADER_SIZE,
    MAX_REQUESTS_PER_CONNECTION,
    MAX_REQUESTS_PER_ACCOUNT,
    MAX_CONNECTION_BUFFER_BYTES,
)
"""The names of the options in RocketMQ's style; the counter of a limit has the same name."""

DEFAULT_FRAME_SIZE: Final = 16 << 20
LEAST_FRAME_SIZE: Final = 1 << 20
# limit: larger than one read (256 KiB), so that only frames assembled from several reads must be compared with the limit
DEFAULT_HEADER_SIZE: Final = 512 << 10
LEAST_HEADER_SIZE: Final = 64 << 10
# limit: a message's properties (32 KiB) with some escapes
DEFAULT_REQUESTS_PER_CONNECTION: Final = 4096
DEFAULT_REQUESTS_PER_ACCOUNT: Final = 65_536
DEFAULT_NEW_CONNECTIONS: Final = 30_000
# limit: three connections from each of 10,000 clients behind one address; about 10 % of the event loop's time
DEFAULT_HANDSHAKES: Final = 1000
DEFAULT_NEW_HANDSHAKES: Final = 6000
# limit: a handshake takes up to 1 ms, so these take 10 % of the event loop's time
MOST_CONNECTIONS: Final = 100_000
# limit: of `maxConnections` by default; a silent connection takes some 15 KB


class ConnectionLimits(Struct, frozen=True):
    """The limits that a server enforces. 0 connections or handshakes: no limit."""

    connections: int = 0
    connections_per_address: int = 0
    frame_size: int = DEFAULT_FRAME_SIZE
    header_size: int = DEFAULT_HEADER_SIZE
    requests_per_connection: int = DEFAULT_REQUESTS_PER_CONNECTION
    requests_per_account: int = DEFAULT_REQUESTS_PER_ACCOUNT
    new_connections_per_minute: int = 0
    handshakes: int = 0
    handshakes_per_minute: int = 0
