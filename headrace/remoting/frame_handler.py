"""FrameHandler: the interface through which a `Channel` passes on the frames that it reads."""

from collections.abc import Callable
from typing import Protocol


class FrameHandler(Protocol):
    """Handles the frames of a channel. It has a reference to the channel and uses its public interface."""

    @property
    def is_busy(self) -> bool:
        """Whether it takes no more frames for now. It calls the channel's `pause` when that begins and `resume` when it ends."""

    def opened(self) -> None:
        """The connection is open and its peer is known. If this raises, the connection is aborted."""

    # The channel asks for these once, when it is created: a handler may return functions of another object, or None.

    @property
    def begin_batch(self) -> Callable[[], None] | None:
        """Called before the frames of one read."""

    @property
    def take(self) -> Callable[[bytes, int], int]:
        """`take(data, position)` handles the complete frames in `data` from `position` on, until it has to wait.

        It returns the position of the first frame not handled. If the channel was closed meanwhile, all frames count as handled.
        Raises BadFrame.
        """

    @property
    def end_batch(self) -> Callable[[], None] | None:
        """Called after the frames of one read; written bytes are sent afterwards."""

    def resumed(self) -> None:
        """Writing is possible again: send the answers that waited."""

    def lost(self, reason: str) -> None:
        """The connection is lost."""
