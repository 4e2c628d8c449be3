"""DelayOffsets: the progress of each delay level, stored in `config/delayOffset.json` (store spec 10.2).

    {"offsetTable":{<level>:<next queue offset in SCHEDULE_TOPIC_XXXX>,…}}

Written every `flushDelayOffsetInterval` and at the stop, as in RocketMQ, if it has changed or the log has grown much. It never counts a message as delivered before the delivery is durable;
otherwise a power cut would lose it. Later deliveries are found in the log (`delivered_copies`).
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping

from broker.delays.delivered_copies import LevelsFile, Progress
from broker.json_file import JsonFile
from headrace.model.names import SCHEDULE_TOPIC
from headrace.protocol.bodies.tables import DelayOffsetSerializeWrapper

logger = logging.getLogger(__name__)

_FLUSH_POLL_S = 0.05
_FIRST_S = 0.5
_SEARCH_BYTES = 64 << 20  # limit: at a start so much of the log is searched, and the data of an interval


class DelayOffsets:
    """The next queue offset of each level. Used in the broker's event loop."""

    def __init__(self, json_file: JsonFile, levels_file: LevelsFile | None = None) -> None:
        """Reads the file. Raises ConfigFileUnreadable."""
        self._file = json_file
        self._levels_file = levels_file
        stored = json_file.load(DelayOffsetSerializeWrapper.decode)
        self._offsets: dict[int, int] = dict(stored.offset_table) if stored is not None else {}
        self.unknown_since = levels_file.find(self._offsets) if levels_file is not None else None
        """Physical offset from which on there may be deliveries not covered by the file; None if unknown."""
        self._stored: list[Progress] = []
        """What `delayOffset.json` may contain: one table; a second one if its last write failed."""
        if self.unknown_since is not None:
            self._stored.append((dict(self._offsets), self.unknown_since))
        self._is_changed = False
        self._writing = threading.Lock()
        self._turn = self._written = 0

    def table(self) -> Mapping[int, int]:
        """Level to queue offset; only levels with deliveries."""
        return self._offsets

    def next_offset(self, level: int) -> int:
        """Where the level continues."""
        return self._offsets.get(level, 0)

    def move(self, level: int, offset: int) -> None:
        """Sets the offset at which the level continues."""
        if self._offsets.get(level) != offset:
            self._offsets[level] = offset
            self._is_changed = True

    def clamp(self, bounds: Callable[[str, int], tuple[int, int]]) -> None:
        """Corrects offsets outside their queues to the nearer end; at the start, as RocketMQ does."""
        for level, offset in list(self._offsets.items()):
            least, most = bounds(SCHEDULE_TOPIC, level - 1)
            corrected = min(max(offset, least), most)
            if corrected != offset:
                logger.warning("delay offset corrected level=%d from=%d to=%d", level, offset, corrected)
                self.move(level, corrected)

    def persist(self, unknown_since: int) -> None:
        """Writes the file if it is due; deliveries that it does not cover are at `unknown_since` or beyond.

        Raises OSError; the next call tries again.
        """
        if self._is_due(unknown_since):
            self._write(self._take_snapshot(), unknown_since)

    async def keep(
        self,
        interval_s: float,
        unknown_since: Callable[[], int],
        wrote_offset: Callable[[], int],
        flushed_offset: Callable[[], int],
    ) -> None:
        """Persists every `interval_s` seconds, on a thread, until it is cancelled; each time what is true of the log's durable part."""
        is_first = self._levels_file is not None and self.unknown_since is None
        while True:
            await asyncio.sleep(min(interval_s, _FIRST_S) if is_first else interval_s)
            if not (self._is_due(unknown_since()) or is_first):
                continue
            is_first = False
            # order: the table and the end of the log are taken together; written when the log is durable up to there.
            snapshot, unknown, end = self._take_snapshot(), unknown_since(), wrote_offset()
            try:
                while flushed_offset() < end:  # noqa: ASYNC110  (another process moves the cell)
                    await asyncio.sleep(_FLUSH_POLL_S)
                await asyncio.to_thread(self._write, snapshot, unknown)
            except asyncio.CancelledError:
                self._is_changed = True
                raise
            except OSError as error:
                logger.warning("delay offsets not saved, will retry error=%r", str(error))

    def _is_due(self, unknown_since: int) -> bool:
        """Whether there is progress to write, or the next start would search too much of the log."""
        return self._is_changed or (bool(self._stored) and unknown_since - self._stored[-1][1] > _SEARCH_BYTES)

    def _take_snapshot(self) -> tuple[int, dict[int, int]]:
        self._is_changed = False
        self._turn += 1
        return self._turn, dict(self._offsets)

    def _write(self, snapshot: tuple[int, dict[int, int]], unknown_since: int) -> None:
        turn, table = snapshot
        with self._writing:  # both files or none: at the stop, a thread may still be writing an older table
            if turn < self._written:
                return
            self._written = turn
            new: Progress = (table, unknown_since)
            stored, self._stored = self._stored, [*self._stored[:1], new]
            try:
                if self._levels_file is not None:
                    # order: before the offsets, and with the table that they replace.
                    self._levels_file.write([*stored, new])
                self._file.save(DelayOffsetSerializeWrapper(table).encode_pretty())
            except OSError:
                self._is_changed = True
                raise
            self._stored = [new]
