"""HistoryFile: the figures of thirty days in one SQLite file of bounded size.

    series    slot      place in the values
              name      such as `topic.in/Orders`
              since     first point, s: what older points have in this place belonged to another series
              seen      a day on which it had values, s
    points    tier, at  resolution and time, s
              vals      a float of 4 bytes for each slot, NaN for a gap; shorter if the last slots have no values

A sample is one transaction: it is there wholly or not at all, whatever is killed when. A missing row is a gap. The write-ahead log is
synced when it is merged, so that a power cut costs the last minutes and never the file.

Size: `MOST_SERIES` slots of 4 bytes in 3,528 rows are at most 116 MB; 2,000 topics and 500 groups have 6,000 series, 85 MB. A series
without values for thirty days gives its slot to a new one. Deleted rows are reused, so that the file does not grow further.
"""

import logging
import os
import sqlite3
import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from web.database_file import open_database_file
from web.history.tiers import GAP, TIERS, Tier, mean, tier_for

MOST_SERIES: Final = 8_192  # limit: 32 KiB for each sample
MOST_NAMES_READ: Final = 64  # limit: series of one chart

_DAY_S: Final = 86_400
_FORGET_AFTER_S: Final = TIERS[-1].span_s + _DAY_S
_FLOAT_BYTES: Final = 4
_LATE_S: Final = 2 * TIERS[0].step_s
"""A point that is not stored so long after its time is a gap."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS series (slot INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, since INTEGER NOT NULL, seen INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS points (tier INTEGER NOT NULL, at INTEGER NOT NULL, vals BLOB NOT NULL, PRIMARY KEY (tier, at));
"""

logger = logging.getLogger(__name__)


class Chart(Struct, frozen=True):
    """Points of several series at the same times, `step_s` apart; None is a gap."""

    step_s: int
    times: list[int]
    series: dict[str, list[float | None]]


class _Series(Struct):
    slot: int
    since_s: int
    seen_s: int


class HistoryFile:
    """One open file. Methods block for milliseconds and may be called by any thread."""

    def __init__(self, path: Path | None, most_series: int = MOST_SERIES) -> None:
        """Opens or creates the file; None: in memory. A damaged one is kept under another name, and a new one is begun. Raises OSError, sqlite3.Error."""
        self._most_series = most_series
        self._turn = threading.Lock()
        self._refused_s = 0
        try:
            self._connection, self._series = _open(path)
        except sqlite3.OperationalError:
            raise  # locked, or no permission: not damaged
        except sqlite3.DatabaseError as error:
            assert path is not None
            damaged = path.with_name(path.name + ".damaged")
            logger.error("history corrupt, new file created path=%s renamed_to=%s error=%r", path, damaged, str(error))
            os.replace(path, damaged)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._connection, self._series = _open(path)

    def close(self) -> None:
        """Merges the write-ahead log and closes the file."""
        with self._turn:
            self._connection.close()

    def names(self, prefix: str = "") -> list[str]:
        """The names of series that begin with a text, sorted."""
        with self._turn:
            return sorted(name for name in self._series if name.startswith(prefix))

    def add(self, at_s: float, values: Mapping[str, float]) -> None:
        """Stores one sample. Raises sqlite3.Error; then nothing of it is stored."""
        at = TIERS[0].bucket(at_s)
        with self._turn:
            try:
                with self._connection:
                    self._add(at, values)
            except sqlite3.Error:
                self._series = _read_series(self._connection)
                raise

    def read(self, names: Sequence[str], begin_s: float, end_s: float, now_s: float) -> Chart:
        """Points of series from `begin_s` to `end_s`, in the finest resolution that reaches back so far. Unknown series are gaps.

        The last point is the newest one that is complete.
        """
        index = tier_for(begin_s, now_s)
        tier = TIERS[index]
        first = tier.bucket(max(begin_s, now_s - tier.span_s))
        last = min(tier.bucket(min(end_s, now_s)), self._newest(index, now_s))
        times = list(range(first, last + 1, tier.step_s))
        series = {name: self._column(name, index, tier, times) for name in names[:MOST_NAMES_READ]}
        return Chart(tier.step_s, times, series)

    # ---- inside a transaction

    def _add(self, at: int, values: Mapping[str, float]) -> None:
        row = array("f", [GAP]) * self._place(values, at)
        for name, value in values.items():
            series = self._series.get(name)
            if series is not None:
                row[series.slot] = value
        self._store(0, at, row)
        for index in range(1, len(TIERS)):
            self._summarize(index, at)
        for index, tier in enumerate(TIERS):
            oldest = tier.bucket(at) - tier.span_s
            self._connection.execute("DELETE FROM points WHERE tier = ? AND at <= ?", (index, oldest))

    def _place(self, values: Iterable[str], at: int) -> int:
        """Gives a slot to every new series as long as there are some; returns the length of a row."""
        free: list[int] | None = None
        refused = 0
        for name in values:
            series = self._series.get(name)
            if series is None:
                free = self._free_slots(at) if free is None else free
                if not free:
                    refused += 1
                    continue
                series = self._series[name] = _Series(free.pop(), at, at)
                self._connection.execute("INSERT INTO series VALUES (?, ?, ?, ?)", (series.slot, name, at, at))
            elif at - series.seen_s >= _DAY_S:
                series.seen_s = at
                self._connection.execute("UPDATE series SET seen = ? WHERE slot = ?", (at, series.slot))
        if refused and at - self._refused_s >= _DAY_S:
            self._refused_s = at
            logger.warning("history full, new series not recorded count=%d limit=%d", refused, self._most_series)
        return 1 + max((series.slot for series in self._series.values()), default=-1)

    def _free_slots(self, at: int) -> list[int]:
        """Slots that no series has, the lowest last; forgets series without values for thirty days."""
        for name in [name for name, one in self._series.items() if at - one.seen_s > _FORGET_AFTER_S]:
            self._connection.execute("DELETE FROM series WHERE slot = ?", (self._series.pop(name).slot,))
        taken = {one.slot for one in self._series.values()}
        return [slot for slot in reversed(range(self._most_series)) if slot not in taken]

    def _summarize(self, index: int, at: int) -> None:
        """Stores the points of a tier that are complete, from those of the finer one."""
        tier = TIERS[index]
        (last,) = self._connection.execute("SELECT max(at) FROM points WHERE tier = ?", (index,)).fetchone()
        begin, end = 0 if last is None else last + tier.step_s, tier.bucket(at)
        rows = self._connection.execute(
            "SELECT at, vals FROM points WHERE tier = ? AND at >= ? AND at < ? ORDER BY at", (index - 1, begin, end)
        )
        buckets: dict[int, list[array[float]]] = {}
        for finer_at, blob in rows:
            buckets.setdefault(tier.bucket(finer_at), []).append(_decode(blob))
        for bucket, finer in buckets.items():
            self._store(index, bucket, mean(finer))

    def _store(self, index: int, at: int, row: "array[float]") -> None:
        self._connection.execute("INSERT OR REPLACE INTO points VALUES (?, ?, ?)", (index, at, row.tobytes()))

    # ---- reading

    def _newest(self, index: int, now_s: float) -> int:
        """The newest point of a tier that can have a value: one that is not complete yet, or not stored yet, is no gap."""
        tier = TIERS[index]
        with self._turn:
            (stored,) = self._connection.execute("SELECT max(at) FROM points WHERE tier = ?", (index,)).fetchone()
        late = tier.bucket(now_s - _LATE_S)
        return max(stored or 0, late if index == 0 else late - tier.step_s)

    def _column(self, name: str, index: int, tier: Tier, times: Sequence[int]) -> list[float | None]:
        found: dict[int, float | None] = {}
        with self._turn:
            series = self._series.get(name)
            if series is not None and times:
                begin = max(times[0], tier.bucket(series.since_s))
                rows = self._connection.execute(
                    "SELECT at, substr(vals, ?, ?) FROM points WHERE tier = ? AND at BETWEEN ? AND ?",
                    (series.slot * _FLOAT_BYTES + 1, _FLOAT_BYTES, index, begin, times[-1]),
                )
                for at, blob in rows:
                    (value,) = _decode(blob) or (GAP,)
                    found[at] = value if value == value else None  # noqa: PLR0124  a gap does not equal itself
        return [found.get(at) for at in times]


def open_history(path: Path) -> HistoryFile:
    """Opens or creates the file. If that is impossible, the history is kept in memory: pages are more important than charts."""
    try:
        return HistoryFile(path)
    except (OSError, sqlite3.Error) as error:
        logger.error("history kept in memory only, will be lost on restart path=%s error=%r", path, str(error))
        return HistoryFile(None)


def _open(path: Path | None) -> tuple[sqlite3.Connection, dict[str, _Series]]:
    connection = open_database_file(path, synchronous="NORMAL", isolation_level="DEFERRED")
    try:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        connection.executescript(_SCHEMA)
        return connection, _read_series(connection)
    except BaseException:
        connection.close()
        raise


def _read_series(connection: sqlite3.Connection) -> dict[str, _Series]:
    rows = connection.execute("SELECT slot, name, since, seen FROM series").fetchall()
    return {name: _Series(slot, since, seen) for slot, name, since, seen in rows}


def _decode(blob: bytes) -> "array[float]":
    return array("f", blob[: len(blob) // _FLOAT_BYTES * _FLOAT_BYTES])
