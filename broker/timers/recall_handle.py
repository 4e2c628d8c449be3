"""RecallHandle: returned to the producer of a timer message, and sent back by it to cancel the message.

    URL-safe Base64 of "v1 <topic> <broker name> <time of delivery, ms, plus 1> <UNIQ_KEY>"

The form and the 1 are RocketMQ 5's.
"""

import base64
import binascii
from typing import Final

from msgspec import Struct

_VERSION: Final = "v1"


class RecallHandle(Struct, frozen=True):
    """Which message: `due_ms` is its TIMER_OUT_MS."""

    topic: str
    broker_name: str
    due_ms: int
    unique_id: str

    def encode(self) -> str:
        """The text given to producers."""
        text = f"{_VERSION} {self.topic} {self.broker_name} {self.due_ms + 1} {self.unique_id}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> "RecallHandle | None":
        """The decoded handle; None if it is invalid."""
        try:
            version, topic, broker_name, time_ms, unique_id = (
                base64.urlsafe_b64decode(text.encode()).decode().split(" ")
            )
        except (ValueError, binascii.Error):
            return None
        if version != _VERSION or not (time_ms.isascii() and time_ms.isdecimal() and len(time_ms) < 19):
            return None
        return cls(topic, broker_name, int(time_ms) - 1, unique_id)
