"""The file `dead-letters.db`: which dead letters were sent again, and which are handled."""

import sqlite3
from pathlib import Path

from web.database_file import open_database_file
from web.errors import DatabaseUnusable


def open_letter_file(path: Path, schema: str, consequence: str) -> sqlite3.Connection:
    """Opens or creates the file with the tables of `schema`. Raises DatabaseUnusable; `consequence`: what happens without the file."""
    try:
        return open_database_file(path, schema)
    except (OSError, sqlite3.Error) as error:
        raise DatabaseUnusable(path, str(error), consequence) from error
