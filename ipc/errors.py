# ruff: noqa: N818  (an error is named after what happened, as in the design; all end in IpcError)
"""Errors of shared memory, the store's lock and the control socket.

    IpcError
    ├── SegmentMissing   no appliance runs on this store, or it is still creating its segments
    ├── LayoutMismatch   the segment was created by another version, or for another store
    ├── NoSharedMemory   /dev/shm is too small
    ├── QueueTableFull   more queues than `queueTableCapacity`
    ├── CounterPageFull  more counters than a page has room for
    ├── StoreLocked      another process may still write to this store
    ├── NobodyListens    no supervisor listens at this control socket
    └── NoAnswer         the supervisor did not respond in time, or sent an invalid response

Every message is one sentence for operators: what was found, where, and what to do.
"""


class IpcError(Exception):
    """The root of this package's errors."""


class SegmentMissing(IpcError):
    """The shared memory segment does not exist, or is not initialised yet."""


class LayoutMismatch(IpcError):
    """The segment is not of this version and this store."""


class NoSharedMemory(IpcError):
    """The segment's memory could not be reserved."""

    def __init__(self, name: str, needed_bytes: int, free_bytes: int) -> None:
        super().__init__(
            f"shared memory: {name} needs {needed_bytes:,} bytes, but /dev/shm has only {free_bytes:,} free; enlarge it "
            f"(mount -o remount,size=… /dev/shm, in a container: --shm-size=…) or reduce queueTableCapacity"
        )
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes


class QueueTableFull(IpcError):
    """All rows of the queue table are taken."""


class CounterPageFull(IpcError):
    """All entries of a role's counter page are taken."""


class StoreLocked(IpcError):
    """Another process holds the lock of the store; `pids` are the holders that could be found, sorted."""

    def __init__(self, path: str, pids: list[int]) -> None:
        holders = "held by pid " + ", ".join(map(str, pids)) if pids else "the holder could not be found"
        super().__init__(f"store lock: {path} is locked, {holders}; stop that broker, or wait until it has stopped")
        self.path = path
        self.pids = pids


class NobodyListens(IpcError):
    """No process accepts connections at the control socket."""


class NoAnswer(IpcError):
    """The control socket exists, but this user may not connect to it, or no valid answer was received."""
