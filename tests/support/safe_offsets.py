"""The cells from which the safety of the log follows, to set at will."""

from typing import Any

from ipc import control_layout
from ipc.control_block import ControlBlock
from ipc.posix import anonymous_segment


class SafeOffsets:
    """In a control block of its own."""

    def __init__(self, flushed_offset: int = 0, push2slave_max_offset: int = 0, slave_count: int = 0) -> None:
        self.control = ControlBlock(anonymous_segment(control_layout.SIZE_BYTES))
        self.flushed_offset = flushed_offset
        self.push2slave_max_offset = push2slave_max_offset
        self.slave_count = slave_count

    def __setattr__(self, name: str, value: Any) -> None:
        """Stores a cell, by its name."""
        if name == "control":
            super().__setattr__(name, value)
        else:
            self.control.words[getattr(control_layout, name.upper())] = value
