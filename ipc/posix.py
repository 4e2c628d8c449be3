"""POSIX shared memory segments. The only file that imports posix_ipc.

Not `multiprocessing.shared_memory`, with which a visitor that only attaches destroys the segment when it exits.
A segment is mapped once and inherited by children, so nothing depends on its name.
Its blocks are reserved when it is created: a full /dev/shm is an error at start, not a SIGBUS at the first store.
"""

import errno
import mmap
import os

import posix_ipc

from ipc.errors import IpcError, NoSharedMemory, SegmentMissing

_MODE = 0o600
_FOLDER = "/dev/shm"  # noqa: S108  (where Linux keeps the segments)


class Segment:
    """A mapped segment: `.view` by bytes, `.words` by signed 64-bit integers in native byte order."""

    def __init__(self, name: str, mapping: mmap.mmap) -> None:
        self.name = name
        self.size_bytes = len(mapping)
        self.view = memoryview(mapping)
        self.words = self.view.cast("q")
        self._mapping = mapping

    def close(self) -> None:
        """Close the mapping; the segment remains. Existing views of it stay valid."""
        self.words.release()
        self.view.release()
        try:
            self._mapping.close()
        except BufferError:
            pass  # there are still views of it: the mapping is closed with the last of them


def create_segment(name: str, size_bytes: int) -> Segment:
    """Create a zeroed segment with reserved memory, replacing an old one of that name. Mode 0600, less the umask.

    Only the holder of the store's lock may call this. Raises NoSharedMemory; IpcError when the name is another user's.
    """
    unlink_segment(name)
    try:
        shared = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=_MODE)
    except posix_ipc.PermissionsError as error:
        raise IpcError(f"shared memory: user {os.getuid()} cannot create {name}: {error}") from error
    try:
        try:
            os.posix_fallocate(shared.fd, 0, size_bytes)
        except OSError as error:
            unlink_segment(name)
            if error.errno != errno.ENOSPC:
                raise
            raise NoSharedMemory(name, size_bytes, _free_bytes()) from error
        return Segment(name, mmap.mmap(shared.fd, size_bytes))
    finally:
        shared.close_fd()


def open_segment(name: str) -> Segment:
    """Map an existing segment for reading. Never creates, changes or unlinks one. Raises SegmentMissing."""
    try:
        shared = posix_ipc.SharedMemory(name, read_only=True)
    except posix_ipc.ExistentialError:
        raise SegmentMissing(f"shared memory: {name} does not exist; start the appliance with: headrace run") from None
    except posix_ipc.PermissionsError:
        raise IpcError(f"shared memory: user {os.getuid()} cannot read {name}; only its owner can") from None
    try:
        if not os.fstat(shared.fd).st_size:
            raise SegmentMissing(f"shared memory: {name} is not initialized yet; try again")
        return Segment(name, mmap.mmap(shared.fd, 0, access=mmap.ACCESS_READ))
    finally:
        shared.close_fd()


def anonymous_segment(size_bytes: int) -> Segment:
    """A segment without a name, shared only with children forked later."""
    return Segment("", mmap.mmap(-1, size_bytes))


def unlink_segment(name: str) -> bool:
    """Unlink the name; existing mappings are kept. False if there was none."""
    try:
        posix_ipc.unlink_shared_memory(name)
    except posix_ipc.ExistentialError:
        return False
    except posix_ipc.PermissionsError as error:
        raise IpcError(f"shared memory: {name} already exists and belongs to another user: {error}") from error
    return True


def find_segments(prefix: str) -> list[str]:
    """The names of all segments that begin so, sorted."""
    return sorted(f"/{entry}" for entry in os.listdir(_FOLDER) if f"/{entry}".startswith(prefix))


def _free_bytes() -> int:
    status = os.statvfs(_FOLDER)
    return status.f_bavail * status.f_frsize
