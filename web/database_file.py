"""The console's SQLite files: how each is opened."""

import os
import sqlite3
from pathlib import Path
from typing import Literal


def open_database_file(
    path: Path | None,
    schema: str = "",
    *,
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
    isolation_level: Literal["DEFERRED"] | None = None,
) -> sqlite3.Connection:
    """Opens or creates a file that only the console's user may read, with the tables of `schema`; None: in memory. For use by any thread.

    Each statement is a transaction, unless `isolation_level` is DEFERRED: then `with connection` is one. Raises OSError, sqlite3.Error.
    """
    if path is not None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(file, 0o600)  # of a copy that an administrator put back, for example
        finally:
            os.close(file)
    connection = sqlite3.connect(
        path or ":memory:", check_same_thread=False, timeout=5, isolation_level=isolation_level
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.executescript(schema)
    except BaseException:
        connection.close()
        raise
    return connection
