"""QueueTableText: reads a table by queue, `{{"brokerName":"b","queueId":0,"topic":"T"}:{"maxOffset":5,…},…}`, in a third of the time of `fastjson`.

An answer may have a hundred thousand queues. Only text as brokers write it is read: names without escapes, values of whole numbers, all keys in order.
"""

import functools
import re
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from headrace.model.message_queue import MessageQueue

T = TypeVar("T")

NAME: Final = r'[^"\\\x00-\x1f]*+'
"""The pattern of a name, without quotes."""
NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,17}+)"


class QueueTableText(Generic[T]):
    """The tables whose values have these keys, in the order of the text."""

    def __init__(self, make: Callable[..., T], *keys: str) -> None:
        """`make`: called with the numbers of a value."""
        self._make = make
        numbers = ",".join(f'"{key}":({NUMBER})' for key in keys)
        entry = rf'\{{"brokerName":"({NAME})","queueId":({NUMBER}),"topic":"({NAME})"\}}:\{{{numbers}\}}'
        self._entry = entry
        bare = re.sub(r"\((?!\?)", "(?:", entry)
        self.pattern = rf"\{{(?:{bare}(?:,{bare})*+)?\}}"
        """What `read` reads, as a regular expression without groups."""

    def read(self, text: str) -> dict[MessageQueue, T]:
        """The table in a text that matches `pattern`."""
        return {
            MessageQueue(topic, broker, int(queue_id)): self._make(*map(int, numbers))
            for broker, queue_id, topic, *numbers in compiled(self._entry).findall(text)
        }


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled when it is first needed: that takes milliseconds, which every start would wait for."""
    return re.compile(pattern)


def plain_text(data: bytes | str) -> str:
    """The text of a body, or an empty one if it is not in UTF-8."""
    try:
        return data if isinstance(data, str) else bytes(data).decode()
    except UnicodeDecodeError:
        return ""
