"""Delay levels: RocketMQ's table of delays. A delayed message contains the number of one of them, from 1."""

from typing import Final

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Parses the setting `messageDelayLevel` into delays in ms; the first is level 1. Raises ValueError naming what is invalid."""
    levels = []
    for word in text.split():
        number, unit = word[:-1], word[-1]
        if unit not in _UNITS_MS or not (number.isascii() and number.isdecimal()):
            raise ValueError(f"{word!r} is not a delay level; expected a number followed by s, m, h or d, such as 30s")
        levels.append(int(number) * _UNITS_MS[unit])
    return tuple(levels)
