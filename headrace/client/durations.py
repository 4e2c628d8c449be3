"""Durations (seconds or a timedelta) and points in time, as users give them, in seconds and milliseconds."""

import time
from datetime import datetime, timedelta
from typing import TypeAlias

from headrace.errors import ConfigError

Duration: TypeAlias = float | timedelta
Moment: TypeAlias = int | datetime


def seconds(duration: Duration) -> float:
    """Returns the duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def milliseconds(duration: Duration) -> int:
    """Returns the duration in whole milliseconds, at least 1 unless it is 0."""
    value = seconds(duration)
    return max(1, round(value * 1000)) if value > 0 else 0


def epoch_ms(moment: Moment) -> int:
    """Returns a point in time in milliseconds since 1970. Raises ConfigError for a datetime without a time zone."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ConfigError(f"{moment.isoformat()} has no time zone; use datetime.now(UTC) or another aware datetime")
        return int(moment.timestamp() * 1000)
    return int(moment)


def now_ms() -> int:
    """Returns the wall-clock time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
