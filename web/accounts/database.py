"""The file of users, sessions and audit log.

It has one writer, the console's process, and is small: statements take microseconds, a commit one sync. Every commit is durable before the
user is answered.
"""

import os
import sqlite3
from pathlib import Path
from typing import Final

from web.errors import DatabaseUnusable

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE users (
    name TEXT PRIMARY KEY, access INTEGER NOT NULL, password TEXT NOT NULL, created_ms INTEGER NOT NULL, last_login_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE sessions (
    key BLOB PRIMARY KEY, user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE, created_ms INTEGER NOT NULL, seen_ms INTEGER NOT NULL,
    address TEXT NOT NULL, browser TEXT NOT NULL
) STRICT;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, user TEXT NOT NULL, address TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL,
    outcome TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at_ms);
"""


def open_database(folder: Path) -> sqlite3.Connection:
    """Opens the file in the console's folder, which is made if it is missing. Raises DatabaseUnusable."""
    path = folder / "console.db"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
    except (OSError, sqlite3.Error) as error:
        raise DatabaseUnusable(path, str(error)) from error
    if version > _VERSION:
        connection.close()
        raise DatabaseUnusable(
            path, f"it was written by a newer version (schema {version}, this version has {_VERSION})"
        )
    return connection
