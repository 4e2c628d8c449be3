"""The file of users, sessions and audit log.

It has one writer, the console's process, and is small: statements take microseconds, a commit one sync. Every commit is durable before the
user is answered, except those within `unsynced`.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from web.database_file import open_database_file
from web.errors import DatabaseUnusable

_SCHEMAS: Final = (
    """
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
""",
    # Refusals have a limit of their own, so that they do not drive changes out of the log; tokens of programs.
    """
ALTER TABLE audit ADD COLUMN is_refused INTEGER NOT NULL DEFAULT 0;
CREATE INDEX audit_refused ON audit (is_refused, id);
DROP INDEX audit_at;
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, key BLOB NOT NULL UNIQUE, name TEXT NOT NULL, user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    access INTEGER NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL
) STRICT;
""",
    # Users of an OpenID provider: issuer and subject identify them. Both are empty for local users.
    """
ALTER TABLE users ADD COLUMN issuer TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN display_name TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX users_subject ON users (issuer, subject) WHERE issuer != '';
""",
    # The time zone that a user chose (`time_zones`).
    """
ALTER TABLE users ADD COLUMN zone TEXT NOT NULL DEFAULT '';
""",
)
"""What each version adds to the one before."""
_VERSION: Final = len(_SCHEMAS)
_WITHOUT: Final = "the console then starts without users"


def open_database(folder: Path) -> sqlite3.Connection:
    """Opens the file in the console's folder, which is made if it is missing. Raises DatabaseUnusable."""
    path = folder / "console.db"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        connection = open_database_file(path)
    except (OSError, sqlite3.Error) as error:
        raise DatabaseUnusable(path, str(error), _WITHOUT) from error
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for number, schema in enumerate(_SCHEMAS[version:], version + 1):
            connection.executescript(f"BEGIN; {schema} PRAGMA user_version = {number}; COMMIT;")
    except sqlite3.Error as error:
        connection.close()
        raise DatabaseUnusable(path, str(error), _WITHOUT) from error
    if version > _VERSION:
        connection.close()
        reason = f"the file was written by a newer version (schema {version}, this version has {_VERSION})"
        raise DatabaseUnusable(path, reason, _WITHOUT, "install that version again")
    return connection


@contextlib.contextmanager
def unsynced(database: sqlite3.Connection) -> Iterator[None]:
    """Commits within do not wait for the disk; a power cut may undo them. For what anybody can cause, and nobody misses."""
    database.execute("PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        database.execute("PRAGMA synchronous = FULL")
