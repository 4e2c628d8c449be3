"""Durations as users give them, seconds or a timedelta, and points in time, as the engine counts them: milliseconds."""

import time
from datetime import datetime, timedelta
from typing import TypeAlias

from headrace.errors import ConfigError

Duration: TypeAlias = float | timedelta
Moment: TypeAlias = int | datetime


def seconds(duration: Duration) -> float:
    """The duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def milliseconds(duration: Duration) -> int:
    """The duration in whole milliseconds, at least one unless it is nothing."""
    value = seconds(duration)
    return max(1, round(value * 1000)) if value > 0 else 0


def epoch_ms(moment: Moment) -> int:
    """A point in time in milliseconds since 1970. Raises ConfigError for a datetime that does not say its time zone."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ConfigError(f"{moment.isoformat()} does not say its time zone; use datetime.now(UTC) or the like")
        return int(moment.timestamp() * 1000)
    return int(moment)


def now_ms() -> int:
    """The wall clock, milliseconds since 1970."""
    return time.time_ns() // 1_000_000
