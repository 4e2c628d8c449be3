"""TimerRedirect: stores a message that has a delivery time in the timer topic (store spec 10.6).

The properties and their meaning are RocketMQ 5's; but times are kept to the millisecond, while RocketMQ 5 rounds them down to a
second. A delay level takes precedence over a time.
"""

import re
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from headrace.model import properties, sys_flag
from headrace.model.names import TIMER_TOPIC
from headrace.protocol.record_layout import MAX_PROPERTIES_LENGTH
from store.commit_log.message import MessageToStore

DELIVERED_RECORD: Final = "TIMER_PHYSICAL_OFFSET"
"""Property of a delivered message: the physical offset of its waiting record. Clients cannot set it."""

ASKING: Final = (properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS, properties.TIMER_DELIVER_MS)
"""Properties that set a time; the first one present is used."""

MARK_ROOM: Final = 64
"""Bytes reserved for DELIVERED_RECORD in the properties of a waiting message."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


class Outcome(Enum):
    """The result of a redirection."""

    NO_TIMER = auto()
    """It must be delivered at once."""
    WAITS = auto()
    ILLEGAL = auto()
    """The time is not a number, or later than messages may wait; or it cancels a message that may already be delivered."""
    DISABLED = auto()


class TimerRules(Struct, frozen=True):
    """The broker's settings."""

    enabled: bool
    longest_ms: int


class TimerRedirect:
    """Times of one broker. `rules()` are the current settings."""

    def __init__(
        self,
        rules: Callable[[], TimerRules],
        ensure_topic: Callable[[], object],
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`ensure_topic()` creates the timer topic if it does not exist, because queues of unknown topics are deleted."""
        self._rules = rules
        self._ensure_topic = ensure_topic
        self._clock_ms = clock_ms

    def redirect(self, message: MessageToStore, found: dict[str, str]) -> Outcome:
        """Redirects the message if `found`, its properties, sets a time; they then include what is needed to deliver it.

        With a delay level, the time properties are removed from `found`.
        """
        if not sys_flag.is_queued(message.sys_flag) or not any(name in found for name in ASKING):
            return Outcome.NO_TIMER
        if _is_delayed(found):
            for name in ASKING:
                found.pop(name, None)
            return Outcome.NO_TIMER
        if properties.TIMER_OUT_MS in found:
            # A client forwards a message that was delivered by a timer.
            return Outcome.NO_TIMER
        rules, now_ms = self._rules(), self._clock_ms()
        if not rules.enabled:
            return Outcome.DISABLED
        due_ms = _due(found, now_ms)
        if due_ms is None or due_ms - now_ms > rules.longest_ms:
            return Outcome.ILLEGAL
        if due_ms <= now_ms:
            return Outcome.ILLEGAL if properties.TIMER_DEL_UNIQKEY in found else Outcome.NO_TIMER
        found[properties.TIMER_OUT_MS] = str(due_ms)
        found[properties.REAL_TOPIC] = message.topic
        found[properties.REAL_QUEUE_ID] = str(message.queue_id)
        message.properties = properties.encode_properties(found).encode()
        if len(message.properties) > MAX_PROPERTIES_LENGTH - MARK_ROOM:
            return Outcome.ILLEGAL
        self._ensure_topic()
        message.topic = TIMER_TOPIC
        message.queue_id = 0
        return Outcome.WAITS


def cancels(found: dict[str, str]) -> bool:
    """Whether a waiting record is one that cancels another."""
    return properties.TIMER_DEL_UNIQKEY in found


def due_of_record(found: dict[str, str]) -> int | None:
    """The due time of a record of the timer topic in ms; None if it has none."""
    text = found.get(properties.TIMER_OUT_MS, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def _is_delayed(found: dict[str, str]) -> bool:
    text = found.get(properties.DELAY, "0")
    return bool(_WHOLE.fullmatch(text)) and int(text) > 0


def _due(found: dict[str, str], now_ms: int) -> int | None:
    name = next(name for name in ASKING if name in found)
    if not _WHOLE.fullmatch(found[name]):
        return None
    asked = int(found[name])
    if name == properties.TIMER_DELAY_SEC:
        return now_ms + asked * 1000
    return now_ms + asked if name == properties.TIMER_DELAY_MS else asked
