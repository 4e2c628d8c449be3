"""The file `dead-letters.db`: which dead letters were sent again, and which are handled."""

import os
import sqlite3
from pathlib import Path

from web.errors import DatabaseUnusable


def open_letter_file(path: Path, schema: str, consequence: str) -> sqlite3.Connection:
    """Opens or creates the file with the tables of `schema`. Raises DatabaseUnusable; `consequence`: what happens without the file."""
    try:
        return _open(path, schema)
    except (OSError, sqlite3.Error) as error:
        raise DatabaseUnusable(path, str(error), consequence) from error


def _open(path: Path, schema: str) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    connection = sqlite3.connect(path, check_same_thread=False, timeout=5, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(schema)
    except BaseException:
        connection.close()
        raise
    return connection
