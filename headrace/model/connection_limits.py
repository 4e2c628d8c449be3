"""The limits of a server's connections: how many, how large their frames, how many requests at a time.

Broker and name server have the same options for them (`LimitOptions`). The limit of memory is apart (`buffer_limit`).
"""

from dataclasses import dataclass
from typing import Final, Protocol, Self

MAX_CONNECTIONS: Final = "maxConnections"
MAX_CONNECTIONS_PER_ADDRESS: Final = "maxConnectionsPerAddress"
MAX_FRAME_SIZE: Final = "maxFrameSize"
MAX_HEADER_SIZE: Final = "maxHeaderSize"
MAX_REQUESTS_PER_CONNECTION: Final = "maxRequestsPerConnection"
MAX_REQUESTS_PER_ACCOUNT: Final = "maxRequestsPerAccount"
MAX_CONNECTION_BUFFER_BYTES: Final = "maxConnectionBufferBytes"

OPTIONS: Final = (
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_ADDRESS,
    MAX_FRAME_SIZE,
    MAX_HEADER_SIZE,
    MAX_REQUESTS_PER_CONNECTION,
    MAX_REQUESTS_PER_ACCOUNT,
    MAX_CONNECTION_BUFFER_BYTES,
)
"""The options by RocketMQ's way of naming; the counter of a limit has the same name."""

DEFAULT_FRAME_SIZE: Final = 16 << 20
LEAST_FRAME_SIZE: Final = 1 << 20
# limit: more than one read brings (256 KiB), so that only frames that are put together of several reads need to be compared with the limit
DEFAULT_HEADER_SIZE: Final = 512 << 10
LEAST_HEADER_SIZE: Final = 64 << 10
# limit: a message's properties (32 KiB) with some escapes
DEFAULT_REQUESTS_PER_CONNECTION: Final = 4096
DEFAULT_REQUESTS_PER_ACCOUNT: Final = 65_536
MOST_CONNECTIONS: Final = 100_000
# limit: of `maxConnections` by default; a silent connection takes some 15 KB


class LimitOptions(Protocol):
    """A configuration with these options."""

    @property
    def max_connections(self) -> int: ...  # noqa: D102
    @property
    def max_connections_per_address(self) -> int: ...  # noqa: D102
    @property
    def max_frame_size(self) -> int: ...  # noqa: D102
    @property
    def max_header_size(self) -> int: ...  # noqa: D102
    @property
    def max_requests_per_connection(self) -> int: ...  # noqa: D102
    @property
    def max_requests_per_account(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits that a server enforces. 0 connections: no limit."""

    connections: int = 0
    connections_per_address: int = 0
    frame_size: int = DEFAULT_FRAME_SIZE
    header_size: int = DEFAULT_HEADER_SIZE
    requests_per_connection: int = DEFAULT_REQUESTS_PER_CONNECTION
    requests_per_account: int = DEFAULT_REQUESTS_PER_ACCOUNT

    @classmethod
    def from_options(cls, options: LimitOptions, open_files: int) -> Self:
        """The limits of a process that may have `open_files` descriptors, a quarter of which are not for connections."""
        possible = open_files - open_files // 4
        most = min(options.max_connections or MOST_CONNECTIONS, possible)
        return cls(
            most,
            min(options.max_connections_per_address or most - most // 4, most),
            options.max_frame_size,
            options.max_header_size,
            options.max_requests_per_connection,
            options.max_requests_per_account,
        )


def check_limits(options: LimitOptions) -> None:
    """Raises ValueError, which names the option and the range, for a limit that cannot be kept to."""
    for name, value, least, most in (
        (MAX_CONNECTIONS, options.max_connections, 0, None),
        (MAX_CONNECTIONS_PER_ADDRESS, options.max_connections_per_address, 0, None),
        (MAX_FRAME_SIZE, options.max_frame_size, LEAST_FRAME_SIZE, DEFAULT_FRAME_SIZE),
        (MAX_HEADER_SIZE, options.max_header_size, LEAST_HEADER_SIZE, DEFAULT_FRAME_SIZE),
        (MAX_REQUESTS_PER_CONNECTION, options.max_requests_per_connection, 1, None),
        (MAX_REQUESTS_PER_ACCOUNT, options.max_requests_per_account, 1, None),
    ):
        check_range(name, value, least, most)


def check_range(name: str, value: int, least: int, most: int | None = None) -> None:
    """Raises ValueError, which names the option and the range, if the value is not in it."""
    if value < least or (most is not None and value > most):
        expected = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"{name}={value}: expected {expected}")
