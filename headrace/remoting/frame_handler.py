"""FrameHandler: the interface of what handles the frames that a `Channel` reads."""

from collections.abc import Callable
from typing import Protocol


class FrameHandler(Protocol):
    """What a channel does with the frames that it reads. It is given the channel and uses its public interface."""

    @property
    def is_busy(self) -> bool:
        """Whether it takes no more frames for now. It calls the channel's `pause` when that begins and `resume` when it ends."""

    def opened(self) -> None:
        """The peer is known. Raises what it raises: the connection is aborted then."""

    # These three are called for every read, so a handler may offer the functions of another object, or none, instead of methods.

    @property
    def begin_batch(self) -> Callable[[], None] | None:
        """Called before the frames of one read."""

    @property
    def take(self) -> Callable[[bytes, int], int]:
        """`take(data, position)` handles the whole frames in `data` from `position` on, until it takes no more.

        It returns where the first begins that was not handled. If the channel was closed meanwhile, everything counts as handled.
        Raises BadFrame.
        """

    @property
    def end_batch(self) -> Callable[[], None] | None:
        """Called after the frames of one read; what was written leaves then."""

    def resumed(self) -> None:
        """There is room again: what had to wait for it can be written."""

    def lost(self, reason: str) -> None:
        """The connection is lost."""
