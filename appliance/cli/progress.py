"""Progress of a long command on standard error: a line with percentage, rate and time left, updated in place if it is a terminal; or lines for programs."""

import os
import sys
import time
from types import TracebackType
from typing import Final, Self

_BAR_WIDTH: Final = 30
_LABEL_WIDTH: Final = 14
_EVERY_S: Final = 0.1  # limit: faster updates are not visible, and writing costs more than reading
_EVERY_LINE_S: Final = 1.0
_WIPE: Final = "\r\x1b[2K"


class ProgressLine:
    """The line. Call `show` at any rate, and `clear` before printing anything else."""

    def __init__(self, *, in_lines: bool = False) -> None:
        """`in_lines`: print `progress done_bytes=N total_bytes=N`, at most once a second, wherever standard error leads."""
        self._in_lines = in_lines
        self._is_on = in_lines or sys.stderr.isatty()
        self._is_shown = False
        self._shown_at = 0.0
        self._part = ""
        self._began = time.monotonic()

    def show(self, part: str, done_bytes: int, total_bytes: int) -> None:
        """Show that `done_bytes` of `total_bytes` of a part are done. Parts follow one another; each has its own rate."""
        now = time.monotonic()
        if part != self._part:
            if self._part:
                self._began = now
            self._part = part
        if not self._is_on or now - self._shown_at < (_EVERY_LINE_S if self._in_lines else _EVERY_S):
            return
        self._shown_at = now
        if self._in_lines:
            sys.stderr.write(f"progress done_bytes={done_bytes} total_bytes={total_bytes}\n")
            sys.stderr.flush()
            return
        self._is_shown = True
        text = progress_text(part, done_bytes, total_bytes, now - self._began)
        # A wrapped line could not be erased.
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
        sys.stderr.write(_WIPE + (text[: columns - 1] if columns else text))
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


def progress_text(part: str, done_bytes: int, total_bytes: int, elapsed_s: float) -> str:
    """The text of the line."""
    share = min(1.0, done_bytes / total_bytes) if total_bytes > 0 else 1.0
    full = int(share * _BAR_WIDTH)
    drawn = "#" * full + "-" * (_BAR_WIDTH - full)
    rate = done_bytes / elapsed_s if elapsed_s > 0 else 0.0
    left = max(0, total_bytes - done_bytes) / rate if rate > 0 else 0.0
    said = f"{left / 60:.0f} min" if left >= 120 else f"{left:.0f} s"
    amount = f"{done_bytes >> 20:,} of {total_bytes >> 20:,} MiB"
    return f"{part:<{_LABEL_WIDTH}} [{drawn}] {share:4.0%}  {amount}  {rate / 1048576:,.0f} MiB/s  {said} left"
