"""QueueWindow: the part of a ConsumeQueue file that is being written, mapped without a descriptor.

A store may have 50,000 queues, and a process fewer descriptors than that, so the file is open only while the window is made. A window is as long as
the space reserved ahead (64 KiB): mappings of whole files would need a page table each, 4 KiB a queue, of which these share one in 32.
"""

import ctypes
import mmap
import os
from typing import Final

PAGE: Final = mmap.PAGESIZE
_FAILED: Final = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong)
_mmap.restype = ctypes.c_void_p
_madvise = _libc.madvise
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_munmap = _libc.munmap
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class QueueWindow:
    """A writable mapping of a range of a file. `view`: its bytes. `start_offset`: where they begin in the queue's stream of files."""

    __slots__ = ("_address", "_length", "start_offset", "view")

    def __init__(self, fd: int, file_start: int, position: int, end: int) -> None:
        """Maps the bytes from the page of `position` up to `end`; both count in the file, which begins at `file_start`. Raises OSError."""
        start = position - position % PAGE
        self._length = end - start
        address = _mmap(None, self._length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, start)
        if address is None or address == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._address: int = address
        # Otherwise the first store into a page would read zeros around it into memory: 2 ms per queue, measured on ext4.
        _madvise(address, self._length, mmap.MADV_RANDOM)
        self.start_offset = file_start + start
        self.view = memoryview((ctypes.c_char * self._length).from_address(address)).cast("B")

    def close(self) -> None:
        """Releases the mapping. Nothing may use `view` from then on."""
        self.view.release()
        _munmap(self._address, self._length)
