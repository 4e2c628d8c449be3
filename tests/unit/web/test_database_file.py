"""How the console's SQLite files are opened."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from web.database_file import open_database_file


def test_file_that_others_may_read_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    path.touch(mode=0o644)
    open_database_file(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "link.db"
    path.symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(OSError, match="symbolic links"):
        open_database_file(path)
    assert not (tmp_path / "elsewhere.db").exists()


@pytest.mark.parametrize("is_one_transaction", [True, False])
def test_isolation_level_decides_what_a_failure_undoes(tmp_path: Path, *, is_one_transaction: bool) -> None:
    schema = "CREATE TABLE IF NOT EXISTS notes (text TEXT NOT NULL)"
    level = "DEFERRED" if is_one_transaction else None
    with contextlib.closing(open_database_file(tmp_path / "x.db", schema, isolation_level=level)) as database:  # type: ignore[arg-type]
        with pytest.raises(sqlite3.IntegrityError), database:
            database.executemany("INSERT INTO notes VALUES (?)", [("kept",), (None,)])
        assert database.execute("SELECT count(*) FROM notes").fetchone() == (0 if is_one_transaction else 1,)
