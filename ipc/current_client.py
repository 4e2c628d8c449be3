"""CurrentClient: the client whose request a process is handling, so that the supervisor can log it if the process dies.

64 bytes of the role's row in the health page: the client's address as text, filled up with zeros; the first cell is 0 while
no request is handled. The role stores the address when it begins to handle what a client sent, and clears the first cell
when it has finished: nine stores for each read from a socket, so this is a hot module (types in the `.pxd`). The supervisor
reads the address after the process has ended.
"""

from typing import Final

CLIENT_CELLS: Final = 8
_BYTES: Final = 8 * CLIENT_CELLS
_NONE: Final = b"\0"
_CELLS = CLIENT_CELLS


class CurrentClient:
    """The role's own mark. For that role only; for the supervisor while the role has no process."""

    def __init__(self, cells: memoryview) -> None:
        """`cells`: CLIENT_CELLS of shared memory, a part of a `memoryview.cast("q")`."""
        self._cells = cells

    def begin(self, client: memoryview) -> None:
        """A request of `client`, encoded by `encode_client`, is handled from now on."""
        for cell in range(_CELLS):
            self._cells[cell] = client[cell]

    def end(self) -> None:
        """No request is being handled."""
        self._cells[0] = 0


def encode_client(address: str) -> memoryview:
    """An address as stored in the mark, truncated to 64 bytes: cells. Encoded once for each connection."""
    return memoryview(address.encode("utf-8", "replace")[:_BYTES].ljust(_BYTES, _NONE)).cast("q")


def read_client(cells: memoryview) -> str:
    """The address in a mark, empty if there is none."""
    return cells.tobytes().partition(_NONE)[0].decode("utf-8", "replace")
