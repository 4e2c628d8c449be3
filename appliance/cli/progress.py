"""How far a long command is: one line on standard error that is written over, and nothing at all where that is no terminal."""

import sys
import time
from types import TracebackType
from typing import Final, Self

_BAR_WIDTH: Final = 30
_LABEL_WIDTH: Final = 14
_EVERY_S: Final = 0.1  # limit: quicker is not seen, and writing costs more than reading
_WIPE: Final = "\r\x1b[2K"


class ProgressLine:
    """The line. `show` it as often as one likes; `clear` it before anything else is printed."""

    def __init__(self) -> None:
        self._is_on = sys.stderr.isatty()
        self._is_shown = False
        self._shown_at = 0.0

    def show(self, part: str, done_bytes: int, total_bytes: int) -> None:
        """Say that so much of a part is done."""
        now = time.monotonic()
        if not self._is_on or now - self._shown_at < _EVERY_S:
            return
        self._shown_at = now
        self._is_shown = True
        sys.stderr.write(_WIPE + bar(part, done_bytes, total_bytes))
        sys.stderr.flush()

    def clear(self) -> None:
        """Make room for other output."""
        if self._is_shown:
            self._is_shown = False
            sys.stderr.write(_WIPE)
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.clear()


def bar(part: str, done_bytes: int, total_bytes: int) -> str:
    """The line's text."""
    share = min(1.0, done_bytes / total_bytes) if total_bytes > 0 else 1.0
    full = int(share * _BAR_WIDTH)
    drawn = "#" * full + "-" * (_BAR_WIDTH - full)
    return f"{part:<{_LABEL_WIDTH}} [{drawn}] {share:4.0%}  {done_bytes >> 20:,} of {total_bytes >> 20:,} MiB"
