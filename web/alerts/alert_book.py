"""AlertBook: the file of rules, channels and events, `alerts.db`, mode 0600: channels contain secrets.

    settings  name, body      the rules and channels, JSON
    events    id, body        what began and ended; the newest EVENTS are kept
    firing    rule, subject   events of alerts that have not ended

A change is one transaction. Without settings the default rules apply.
"""

import logging
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from web.alerts.channels import Channel
from web.alerts.evaluator import AlertEvent
from web.alerts.rules import DEFAULT_RULES, Rule
from web.database_file import open_database_file

T = TypeVar("T")

EVENTS: Final = 10_000  # limit: about 3 MB

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS firing (rule TEXT NOT NULL, subject TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (rule, subject));
"""

logger = logging.getLogger(__name__)


class AlertBook:
    """One open file. Methods block for milliseconds and may be called by any thread."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the file; if that is impossible, in memory, and says so in the log."""
        self._turn = threading.Lock()
        try:
            self._connection = open_database_file(path, _SCHEMA, isolation_level="DEFERRED")
        except (OSError, sqlite3.Error) as error:
            logger.error("alerts kept in memory only, will be lost on restart path=%s error=%r", path, str(error))
            self._connection = open_database_file(None, _SCHEMA, isolation_level="DEFERRED")

    def close(self) -> None:
        """Closes the file."""
        with self._turn:
            self._connection.close()

    def rules(self) -> tuple[Rule, ...]:
        """The rules that apply."""
        return self._setting("rules", tuple[Rule, ...], DEFAULT_RULES)

    def channels(self) -> tuple[Channel, ...]:
        """The channels besides `log`, with their secrets."""
        return self._setting("channels", tuple[Channel, ...], ())

    def store_rules(self, rules: Sequence[Rule]) -> None:
        """Replaces all rules."""
        self._store_setting("rules", msgspec.json.encode(rules))

    def store_channels(self, channels: Sequence[Channel]) -> None:
        """Replaces all channels."""
        self._store_setting("channels", msgspec.json.encode(channels))

    def record(self, events: Sequence[AlertEvent]) -> None:
        """Adds events, and forgets the oldest."""
        with self._turn, self._connection as connection:
            for event in events:
                body = msgspec.json.encode(event)
                connection.execute("INSERT INTO events (body) VALUES (?)", (body,))
                connection.execute("DELETE FROM firing WHERE rule = ? AND subject = ?", (event.rule, event.subject))
                if event.firing:
                    connection.execute("INSERT INTO firing VALUES (?, ?, ?)", (event.rule, event.subject, body))
            connection.execute("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (EVENTS,))

    def events(self, rule: str | None = None) -> list[AlertEvent]:
        """The events that are kept, of all rules or of one, newest first."""
        if rule is None:
            return self._read("SELECT body FROM events ORDER BY id DESC")
        of_rule = "SELECT body FROM events WHERE json_extract(CAST(body AS TEXT), '$.rule') = ? ORDER BY id DESC"
        return self._read(of_rule, rule)

    def has_dropped(self) -> bool:
        """Whether old events were deleted."""
        with self._turn:
            [newest] = self._connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        return int(newest) > EVENTS

    def firing(self) -> list[AlertEvent]:
        """The events of alerts that have not ended."""
        return self._read("SELECT body FROM firing ORDER BY rule, subject LIMIT ?", EVENTS)

    def _read(self, query: str, *values: object) -> list[AlertEvent]:
        with self._turn:
            rows = self._connection.execute(query, values).fetchall()
        return [msgspec.json.decode(body, type=AlertEvent) for (body,) in rows]

    def _setting(self, name: str, kind: type[T], otherwise: T) -> T:
        with self._turn:
            row = self._connection.execute("SELECT body FROM settings WHERE name = ?", (name,)).fetchone()
        if row is None:
            return otherwise
        try:
            return msgspec.json.decode(row[0], type=kind)
        except msgspec.MsgspecError as error:
            logger.error("alert settings unreadable, defaults used setting=%s error=%r", name, str(error))
            return otherwise

    def _store_setting(self, name: str, body: bytes) -> None:
        with self._turn, self._connection as connection:
            connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, body))
