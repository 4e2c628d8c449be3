"""The progress of timers in a store that a RocketMQ 5 broker had used: the file `config/timercheck` (store spec 10.6).

    byte 0   it has delivered what is due before this time, ms        big-endian, signed
    byte 16  it has read the timer queue up to this queue offset

Its other files, `timerwheel` and `timerlog`, contain nothing that is not in the records of the timer topic. Its delivered messages
do not name their waiting record, so only this file prevents them from being delivered again.
"""

import struct
from pathlib import Path
from typing import Final

from msgspec import Struct

_FIELDS: Final = struct.Struct(">qqq")


class Rocketmq5Progress(Struct, frozen=True):
    """Records of the timer queue below `queue_offset` that are due before `delivered_before` (ms) have been delivered or cancelled."""

    delivered_before: int
    queue_offset: int


def read_progress(path: Path) -> Rocketmq5Progress | None:
    """The content of the file; None if it is missing or empty. Raises OSError."""
    try:
        data = path.read_bytes()[: _FIELDS.size]
    except FileNotFoundError:
        return None
    if len(data) < _FIELDS.size:
        return None
    delivered_before, _, queue_offset = _FIELDS.unpack(data)
    if delivered_before <= 0 or queue_offset < 0:
        return None
    return Rocketmq5Progress(delivered_before, queue_offset)
