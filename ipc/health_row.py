"""A role's row of the health page (`ipc.health_page`): its layout, and what the role itself stores there.

    row       word 0       state (STATES)                                            the role
              word 1       heartbeat, monotonic ms                                   the role
              word 2       generation of the long call, odd while it is written      the role
              word 3       end of the long call, monotonic ms; 0: none announced     the role
              word 4       length of its text in bytes                               the role
              word 8       pid, 0 when there is no process                           the supervisor
              word 9       start count                                               the supervisor
              word 10      length of the role's name in bytes                        the supervisor
              word 16…31   text of the long call, UTF-8                              the role
              word 32…39   the role's name                                           the supervisor
              word 40…47   the client whose request it handles (`current_client`)    the role

Each sync of the CommitLog is announced here, while caches are cold, so this is a hot module (types in the `.pxd`).
"""

import cython

from ipc.cells import store_bytes
from ipc.current_client import CLIENT_CELLS, CurrentClient
from ipc.posix import Segment

if not cython.compiled:
    from time import monotonic_ns

    from ipc.cells import keep_words, store_cell, writable_cells_of

ROW_WORDS = 48
STATE = 0
HEARTBEAT = 1
CALL_GENERATION = 2
CALL_UNTIL = 3
CALL_LENGTH = 4
PID = 8
START_COUNT = 9
NAME_LENGTH = 10
CALL_TEXT = 16
CALL_BYTES = 128
NAME = 32
NAME_BYTES = 64
CLIENT = 40

STATES = ("stopped", "starting", "running", "stopping", "failed")
"""By code. Zero, as in a new page, is `stopped`."""
_CODES = {state: code for code, state in enumerate(STATES)}

_HEARTBEAT = HEARTBEAT
_CALL_UNTIL = CALL_UNTIL


def monotonic_ms() -> int:
    """The clock of heartbeats."""
    return monotonic_ns() // 1_000_000


class HealthRow:
    """A role's own cells. For that role only."""

    def __init__(self, segment: Segment, word: int) -> None:
        self._words = keep_words(segment.words)
        self._cells = writable_cells_of(self._words)
        self._view = segment.view
        self._word = word
        self._what = ""  # the text of the long call, once this object has stored one

    def state(self, state: str) -> None:
        """Set one of STATES."""
        store_cell(self._cells, self._word + STATE, _CODES[state])

    def beat(self, now_ms: int) -> None:
        """Store a heartbeat. Monotonic milliseconds."""
        store_cell(self._cells, self._word + _HEARTBEAT, now_ms)

    def long_call(self, what: str, until_ms: int) -> None:
        """Announce a call that may last until then (monotonic ms); the text is truncated to fit."""
        if what != self._what:
            self._store_call(what.encode()[:CALL_BYTES].decode(errors="ignore").encode(), until_ms)
            self._what = what
        else:
            store_cell(self._cells, self._word + _CALL_UNTIL, until_ms)

    def long_call_over(self) -> None:
        """The announced call has ended. Its text remains, because the next one is often the same."""
        store_cell(self._cells, self._word + _CALL_UNTIL, 0)

    def forget_call(self) -> None:
        """The role's process has ended, perhaps while it announced a call."""
        self._store_call(b"", 0)

    def current_client(self) -> CurrentClient:
        """The mark for the client whose request it handles."""
        return CurrentClient(self._words[self._word + CLIENT :][:CLIENT_CELLS])

    def _store_call(self, text: bytes, until_ms: int) -> None:
        cells, word = self._cells, self._word
        generation = self._words[word + CALL_GENERATION] & ~1  # a predecessor may have been killed here
        store_cell(cells, word + CALL_GENERATION, generation + 1)
        store_bytes(self._view, (word + CALL_TEXT) * 8, text)
        store_cell(cells, word + CALL_LENGTH, len(text))
        store_cell(cells, word + _CALL_UNTIL, until_ms)
        store_cell(cells, word + CALL_GENERATION, generation + 2)
