"""HandledBook: which dead letters are marked as handled, by whom, when and with which note, in `dead-letters.db`.

A mark covers a range of offsets of a queue, so that all dead letters of a group need one mark for each queue, and so that the handled ones are counted
without reading them. Marks do not overlap: a letter that is marked keeps its mark until that is removed.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from web.pages.dead_letters.letter_file import open_letter_file
from web.pages.dead_letters.letter_queues import LetterRange

_MOST: Final = 100_000  # limit: marks, some 20 MB; the oldest are dropped, and their letters are unhandled again
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS handled (
    group_name TEXT NOT NULL, broker TEXT NOT NULL, queue INTEGER NOT NULL, first INTEGER NOT NULL,
    beyond INTEGER NOT NULL, at_ms INTEGER NOT NULL, user TEXT NOT NULL, note TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS handled_places ON handled (group_name, broker, queue, first);
"""
_ALL: Final = "SELECT * FROM handled ORDER BY group_name, broker, queue, first"
_OF_GROUP: Final = "SELECT * FROM handled WHERE group_name = ? ORDER BY broker, queue, first"


class Mark(NamedTuple):
    """Dead letters that one user marked as handled at a time."""

    group: str
    broker: str
    queue: int
    begin: int
    end: int
    at_ms: int
    user: str
    note: str


class HandledBook:
    """One open file. Methods block until the change is durable, milliseconds, and may be called by any thread."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the file. Raises DatabaseUnusable."""
        self._turn = threading.Lock()
        self._connection = open_letter_file(path, _SCHEMA, "all dead letters are unhandled then")

    def close(self) -> None:
        """Closes the file."""
        with self._turn:
            self._connection.close()

    def mark(self, group: str, ranges: Iterable[LetterRange], at_ms: int, user: str, note: str) -> int:
        """Marks the letters that are not marked yet; returns how many. Adjacent ones of one change become one mark."""
        count = 0
        with self._change() as database:
            for one in ranges:
                at = one.begin
                for mark in [*self._within(group, one), None]:
                    end = one.end if mark is None else min(mark.begin, one.end)
                    if at < end:
                        self._add(
                            database, Mark(group, one.queue.broker_name, one.queue.queue_id, at, end, at_ms, user, note)
                        )
                        count += end - at
                    at = max(at, end if mark is None else mark.end)
            database.execute("DELETE FROM handled WHERE rowid <= (SELECT max(rowid) FROM handled) - ?", (_MOST,))
        return count

    def unmark(self, group: str, ranges: Iterable[LetterRange]) -> int:
        """Removes the marks of the letters; returns how many were marked."""
        count = 0
        with self._change() as database:
            for one in ranges:
                for mark in self._within(group, one):
                    self._remove(database, mark)
                    begin, end = max(mark.begin, one.begin), min(mark.end, one.end)
                    for left in (mark._replace(end=begin), mark._replace(begin=end)):
                        if left.begin < left.end:
                            self._add(database, left)
                    count += end - begin
        return count

    def marks(self, group: str | None = None) -> list[Mark]:
        """The marks of a group, or all; those of a queue in its order."""
        with self._turn:
            if group is None:
                rows = self._connection.execute(_ALL).fetchall()
            else:
                rows = self._connection.execute(_OF_GROUP, (group,)).fetchall()
        return [Mark(*row) for row in rows]

    def drop(self, marks: Sequence[Mark]) -> None:
        """Forgets marks whose letters are gone."""
        with self._change() as database:
            for mark in marks:
                self._remove(database, mark)

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction, one sync."""
        with self._turn, self._connection as database:
            database.execute("BEGIN IMMEDIATE")
            yield database

    def _within(self, group: str, one: LetterRange) -> list[Mark]:
        """The marks of letters of the range, in their order."""
        rows = self._connection.execute(
            "SELECT * FROM handled WHERE group_name = ? AND broker = ? AND queue = ? AND first < ? AND beyond > ?"
            " ORDER BY first",
            (group, one.queue.broker_name, one.queue.queue_id, one.end, one.begin),
        )
        return [Mark(*row) for row in rows]

    @staticmethod
    def _add(database: sqlite3.Connection, mark: Mark) -> None:
        place, (begin, end), change = mark[:3], mark[3:5], mark[5:]
        done = database.execute(
            "UPDATE handled SET beyond = ? WHERE group_name = ? AND broker = ? AND queue = ? AND beyond = ?"
            " AND at_ms = ? AND user = ? AND note = ?",
            (end, *place, begin, *change),
        )
        if not done.rowcount:
            database.execute("INSERT INTO handled VALUES (?, ?, ?, ?, ?, ?, ?, ?)", mark)

    @staticmethod
    def _remove(database: sqlite3.Connection, mark: Mark) -> None:
        database.execute(
            "DELETE FROM handled WHERE group_name = ? AND broker = ? AND queue = ? AND first = ? AND beyond = ?",
            mark[:5],
        )
