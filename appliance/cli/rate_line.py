"""How far a command that reads a log is: a line on standard error with share, rate and time left; nothing where that is no terminal."""

import sys
import time
from types import TracebackType
from typing import Final, Self

from appliance.cli.progress import bar

_EVERY_S: Final = 0.2  # limit: quicker is not seen
_WIPE: Final = "\r\x1b[2K"


class RateLine:
    """The line. `show` it as often as one likes; `clear` it before anything else is printed."""

    def __init__(self) -> None:
        self._is_on = sys.stderr.isatty()
        self._began = time.monotonic()
        self._shown_at = 0.0

    def show(self, done_bytes: int, total_bytes: int) -> None:
        """Say that so much is done."""
        now = time.monotonic()
        if self._is_on and now - self._shown_at >= _EVERY_S:
            self._shown_at = now
            sys.stderr.write(_WIPE + rate_text(done_bytes, total_bytes, now - self._began))
            sys.stderr.flush()

    def clear(self) -> None:
        """Make room for other output."""
        if self._shown_at:
            sys.stderr.write(_WIPE)
            sys.stderr.flush()
            self._shown_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.clear()


def rate_text(done_bytes: int, total_bytes: int, elapsed_s: float) -> str:
    """The line's text."""
    rate = done_bytes / elapsed_s if elapsed_s > 0 else 0.0
    left = (total_bytes - done_bytes) / rate if rate > 0 else 0.0
    said = f"{left / 60:.0f} min" if left >= 120 else f"{left:.0f} s"
    return f"{bar('log', done_bytes, total_bytes)}  {rate / 1048576:,.0f} MiB/s  {said} left"
