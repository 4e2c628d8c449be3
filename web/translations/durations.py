"""Durations as pages show them, with their units in the page's language."""

import math
from collections.abc import Callable


def format_duration(milliseconds: float, t: Callable[[str], str]) -> str:
    """The two largest units, the second only if it is not zero: 3 d 4 h, 12 min, 340 ms. charts.js has the same rule.

    `t` translates the units.
    """
    if not milliseconds:
        return f"0 {t('s')}"
    if not math.isfinite(milliseconds):
        return str(milliseconds)
    if abs(milliseconds) < 1_000:
        return f"{milliseconds:.1f}".removesuffix(".0") + f" {t('ms')}"
    seconds = int(abs(milliseconds)) // 1_000
    sign = "-" if milliseconds < 0 else ""
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds % 60, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return sign + " ".join(
        f"{amount} {t(unit)}" for place, (amount, unit) in enumerate(parts[:2]) if amount or not place
    )
