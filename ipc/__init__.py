"""Shared memory, bells, the store's lock and the control socket: communication between the appliance's processes.

Only offsets are passed through here, never messages. This package does not depend on messages, files or protocols.
Each number has one writer: the read side is `control_block`, `queue_table.QueueTable` and the pages' `read`, and each writer
has its own module, which only that role may import (`publish/`).
"""

from ipc.errors import IpcError, LayoutMismatch, NoSharedMemory, SegmentMissing, StoreLocked

__all__ = ["IpcError", "LayoutMismatch", "NoSharedMemory", "SegmentMissing", "StoreLocked"]
