"""CurrentClient: the client whose request a process is handling, so that the supervisor can log it if the process dies.

64 bytes of the role's row in the health page: the client's address as text, filled up with zeros; the first byte is 0 while
no request is handled. The role stores the address when it begins to handle what a client sent, and clears the first byte
when it has finished: one copy of 64 bytes and one of one byte for each read from a socket. The supervisor reads the
address after the process has ended.
"""

from typing import Final

from ipc.cells import store_bytes

CLIENT_BYTES: Final = 64
_NONE: Final = b"\0"


class CurrentClient:
    """The role's own mark. For that role only; for the supervisor while the role has no process."""

    __slots__ = ("_start", "_view")

    def __init__(self, view: memoryview, start: int) -> None:
        self._view = view
        self._start = start

    def begin(self, client: bytes) -> None:
        """A request of `client`, encoded by `encode_client`, is handled from now on."""
        store_bytes(self._view, self._start, client)

    def end(self) -> None:
        """No request is being handled."""
        store_bytes(self._view, self._start, _NONE)


def encode_client(address: str) -> bytes:
    """An address as stored in the mark, truncated to 64 bytes. Encoded once for each connection."""
    return address.encode("utf-8", "replace")[:CLIENT_BYTES].ljust(CLIENT_BYTES, _NONE)


def read_client(view: memoryview) -> str:
    """The address in a mark, empty if there is none."""
    return bytes(view).partition(_NONE)[0].decode("utf-8", "replace")
