"""DelayRedirect: stores a message that has a delay level in SCHEDULE_TOPIC_XXXX, queue level - 1 (store spec 2.4, 10.1).

Whoever stores a message asks here first: sends, messages sent back, commits of transactions. The destination of a message
is in REAL_TOPIC and REAL_QID until it is delivered. Dispatch writes its due time
into the queue's entry, as store time plus delay.
"""

import re

from headrace.errors import RemoteProtocolError
from headrace.model import properties, sys_flag
from headrace.model.names import SCHEDULE_TOPIC
from store.commit_log.message import MessageToStore

_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")
_INT_MAX = 0x7FFFFFFF


def delay_level(found: dict[str, str]) -> int:
    """The level in property DELAY, 0 without one. Raises RemoteProtocolError if it is not a whole number."""
    text = found.get(properties.DELAY, "0")
    if not _WHOLE.fullmatch(text) or not -_INT_MAX - 1 <= int(text) <= _INT_MAX:
        raise RemoteProtocolError(f"invalid property DELAY={text[:80]!r}: expected a whole number")
    return int(text)


class DelayRedirect:
    """The levels of one broker; `levels_ms[0]` is the delay of level 1."""

    def __init__(self, levels_ms: tuple[int, ...]) -> None:
        self._most = len(levels_ms)

    def redirect(self, message: MessageToStore, found: dict[str, str]) -> bool:
        """Redirects the message if `found`, its properties, requests a delay. Returns whether it does.

        `found` may have more in it than the stored property string, which is rebuilt from all of it.
        # compat: so WAIT is stored with a message that is delayed, and only then.
        A level beyond the last is the last, in the property too. Raises RemoteProtocolError for a level that is not a number.
        """
        # compat: prepared and rolled-back messages are not delayed; their DELAY is not read.
        if not sys_flag.is_queued(message.sys_flag):
            return False
        level = delay_level(found)
        if level <= 0 or not self._most:
            return False
        if level > self._most:
            level = self._most
            found[properties.DELAY] = str(level)
        found[properties.REAL_TOPIC] = message.topic
        found[properties.REAL_QUEUE_ID] = str(message.queue_id)
        message.properties = properties.encode_properties(found).encode()
        message.topic = SCHEDULE_TOPIC
        message.queue_id = level - 1
        return True
