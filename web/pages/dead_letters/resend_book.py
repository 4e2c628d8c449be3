"""ResendBook: which dead letters were sent again, in `dead-letters.db`, so that nothing is sent twice.

Half messages that are checked again are recorded in the same way, under the name of their topic.

An entry is written before its message is sent, and completed after it. If the console is killed between the two, the outcome is unknown and the
message is not sent again by itself.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from web.pages.dead_letters.letter_file import open_letter_file

_MOST: Final = 500_000  # limit: entries, some 100 MB; the oldest are dropped
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS resent (
    id INTEGER PRIMARY KEY, group_name TEXT NOT NULL, offset_id TEXT NOT NULL, message_id TEXT NOT NULL, at_ms INTEGER NOT NULL,
    user TEXT NOT NULL, copy_id TEXT NOT NULL, UNIQUE (group_name, offset_id, message_id)
) STRICT;
"""


class Letter(NamedTuple):
    """What identifies a dead letter. The offset id alone is used again after a store was deleted."""

    group: str
    offset_id: str
    message_id: str


class Resent(NamedTuple):
    """When a dead letter was sent again."""

    at_ms: int
    copy_id: str
    """The copy's message id; empty: the console does not know whether it was stored."""


class ResendBook:
    """One open file. Methods block until the change is durable, milliseconds, and may be called by any thread."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the file. Raises DatabaseUnusable: without it messages could be sent twice."""
        self._turn = threading.Lock()
        consequence = "messages that were already resent can then be resent again"
        self._connection = open_letter_file(path, _SCHEMA, consequence)

    def close(self) -> None:
        """Closes the file."""
        with self._turn:
            self._connection.close()

    def begin(self, letter: Letter, user: str, at_ms: int, *, again: bool = False) -> bool:
        """Notes that a letter is about to be sent. False if it was before, unless `again`: then it must not be sent."""
        insert = "INSERT OR REPLACE" if again else "INSERT OR IGNORE"
        with self._turn:
            done = self._connection.execute(
                f"{insert} INTO resent (group_name, offset_id, message_id, at_ms, user, copy_id) VALUES (?, ?, ?, ?, ?, '')",
                (*letter, at_ms, user),
            )
            if not done.rowcount:
                return False
            self._connection.execute("DELETE FROM resent WHERE id <= ?", ((done.lastrowid or 0) - _MOST,))
            return True

    def finish(self, letter: Letter, copy_id: str) -> None:
        """Notes that the copy was stored."""
        with self._turn:
            self._connection.execute(
                "UPDATE resent SET copy_id = ? WHERE group_name = ? AND offset_id = ? AND message_id = ?",
                (copy_id, *letter),
            )

    def forget(self, letter: Letter) -> None:
        """Removes an entry: the copy was certainly not stored."""
        with self._turn:
            self._connection.execute(
                "DELETE FROM resent WHERE group_name = ? AND offset_id = ? AND message_id = ?", letter
            )

    def find(self, letters: Sequence[Letter]) -> dict[Letter, Resent]:
        """Those of the letters that were sent again."""
        found: dict[Letter, Resent] = {}
        with self._turn:
            for letter in letters:
                row = self._connection.execute(
                    "SELECT at_ms, copy_id FROM resent WHERE group_name = ? AND offset_id = ? AND message_id = ?",
                    letter,
                ).fetchone()
                if row is not None:
                    found[letter] = Resent(*row)
        return found
