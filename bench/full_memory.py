"""FullMemory: keeps the machine's memory full of cached pages while servers are measured, as on a machine that has run for some days.

A virtual machine gives free memory back to its host, and using such a page again takes 2 to 10 us: more than a message takes. A server that is measured
on fresh memory, or after another one whose files were deleted, pays for that with every new page of its log. Pages of the page cache are taken
over for 0.4 us, the same for every server.
"""

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

_VMSTAT: Final = Path("/proc/vmstat")
_PIECE: Final = 1 << 20


class FullMemory:
    """`fill` before each measurement. The cached file has no blocks on the disk; it needs a file system on one (the default temporary folder's)."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  closed by __exit__
        self._file.truncate(psutil.virtual_memory().total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._file.close()

    def fill(self) -> None:
        """Caches the file until the kernel begins to take cached pages back. Takes up to a minute, depending on how much was freed.

        Not longer: it takes the servers' own files out of the memory as well, first those that were not used lately.
        """
        piece = bytearray(_PIECE)
        # Continues where it stopped: what was read longest ago is cached no longer.
        before = _pages_taken_back()
        for _ in range(psutil.virtual_memory().total // _PIECE):
            if _pages_taken_back() != before:
                break
            if not self._file.readinto(piece):
                self._file.seek(0)


def _pages_taken_back() -> int:
    """From the page cache and from programs, since the machine's start."""
    counts = dict(line.split() for line in _VMSTAT.read_text("ascii").splitlines())
    return int(counts["pgsteal_kswapd"]) + int(counts["pgsteal_direct"])
