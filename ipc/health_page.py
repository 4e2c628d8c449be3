"""The health page: the health of each role. A row for each role; each of its cells has one writer.

    segment   word 0…7     header (segment_header); word 3 is the count of rows
              word 8…      rows

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
              word 40…47   the client whose request it handles (`current_client`)       the role

While a role has no process (before the fork, after the wait) the supervisor writes its cells: a hand-over, not a
second writer. Times are of the monotonic clock, which all processes of a machine share; they are meaningless after a reboot.
"""

import time
from collections.abc import Iterable

from msgspec import Struct

from ipc.cells import store_bytes, store_cell
from ipc.current_client import CLIENT_CELLS, CurrentClient, read_client
from ipc.posix import Segment
from ipc.segment_header import HEADER_WORDS, magic_of, store_header
from ipc.seqlock import Seqlock

MAGIC = magic_of(b"HRhealth")

ROW_COUNT = 3
FIRST_ROW_WORD = HEADER_WORDS
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


class RoleHealth(Struct, frozen=True):
    """A role at the time of reading. `long_call` is None unless one is announced; it may last until `long_call_until_ms`."""

    role: str
    state: str
    heartbeat_ms: int
    long_call: str | None
    long_call_until_ms: int
    pid: int
    start_count: int

    def silent_ms(self, now_ms: int) -> int:
        """How long its heartbeat has been overdue: since the last one, or since the end of the announced long call."""
        return max(0, now_ms - max(self.heartbeat_ms, self.long_call_until_ms))


def monotonic_ms() -> int:
    """The clock of heartbeats."""
    return time.monotonic_ns() // 1_000_000


def size_bytes(roles: int) -> int:
    """The size of a segment for so many roles."""
    return (FIRST_ROW_WORD + roles * ROW_WORDS) * 8


def format_health_page(segment: Segment, store_hash: str, roles: Iterable[str]) -> None:
    """Format a zeroed segment as a page of stopped roles."""
    words = segment.words
    count = 0
    for count, role in enumerate(roles, 1):
        name = role.encode()
        if len(name) > NAME_BYTES:
            raise ValueError(f"role name {role} is too long for the health page")
        word = FIRST_ROW_WORD + (count - 1) * ROW_WORDS
        store_bytes(segment.view, (word + NAME) * 8, name)
        store_cell(words, word + NAME_LENGTH, len(name))
    store_cell(words, ROW_COUNT, count)
    store_header(segment, MAGIC, store_hash)


class HealthRow:
    """A role's own cells. For that role only."""

    def __init__(self, segment: Segment, word: int) -> None:
        self._words = segment.words
        self._view = segment.view
        self._word = word
        self._what = ""  # the text of the long call, once this object has stored one

    def state(self, state: str) -> None:
        """Set one of STATES."""
        store_cell(self._words, self._word + STATE, _CODES[state])

    def beat(self, now_ms: int) -> None:
        """Store a heartbeat. Monotonic milliseconds."""
        store_cell(self._words, self._word + HEARTBEAT, now_ms)

    def long_call(self, what: str, until_ms: int) -> None:
        """Announce a call that may last until then (monotonic ms); the text is truncated to fit."""
        if what != self._what:
            self._store_call(what.encode()[:CALL_BYTES].decode(errors="ignore").encode(), until_ms)
            self._what = what
        else:
            store_cell(self._words, self._word + CALL_UNTIL, until_ms)

    def long_call_over(self) -> None:
        """The announced call has ended. Its text remains, because the next one is often the same."""
        store_cell(self._words, self._word + CALL_UNTIL, 0)

    def forget_call(self) -> None:
        """The role's process has ended, perhaps while it announced a call."""
        self._store_call(b"", 0)

    def current_client(self) -> CurrentClient:
        """The mark for the client whose request it handles."""
        return CurrentClient(self._words[self._word + CLIENT :][:CLIENT_CELLS])

    def _store_call(self, text: bytes, until_ms: int) -> None:
        words, word = self._words, self._word
        generation = words[word + CALL_GENERATION] & ~1  # a predecessor may have been killed here
        store_cell(words, word + CALL_GENERATION, generation + 1)
        store_bytes(self._view, (word + CALL_TEXT) * 8, text)
        store_cell(words, word + CALL_LENGTH, len(text))
        store_cell(words, word + CALL_UNTIL, until_ms)
        store_cell(words, word + CALL_GENERATION, generation + 2)


class SupervisedRow:
    """The supervisor's cells of a role, and the role's own while it has no process. For the supervisor only."""

    def __init__(self, segment: Segment, word: int) -> None:
        self._words = segment.words
        self._word = word
        self._role = HealthRow(segment, word)

    def starting(self) -> None:
        """About to fork it: increments the start count, sets a first heartbeat, and clears the client."""
        store_cell(self._words, self._word + START_COUNT, self._words[self._word + START_COUNT] + 1)
        self._role.forget_call()
        self._role.current_client().end()
        self._role.beat(monotonic_ms())
        self._role.state("starting")

    def forked(self, pid: int) -> None:
        """Set the pid of its process."""
        store_cell(self._words, self._word + PID, pid)

    def ended(self, state: str) -> None:
        """It has been waited for: `stopped`, or `failed` if it should have continued."""
        self._role.forget_call()
        self._role.state(state)
        store_cell(self._words, self._word + PID, 0)


class HealthPage:
    """The read side; also provides writers with their rows."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._words = segment.words
        self._seqlock = Seqlock(segment.words)
        self._rows = dict(self._find_rows())

    @property
    def roles(self) -> list[str]:
        """The roles that have a row, in its order."""
        return list(self._rows)

    def row(self, role: str) -> HealthRow:
        """The row of a role, for that role. Raises KeyError."""
        return HealthRow(self._segment, self._rows[role])

    def supervised_row(self, role: str) -> SupervisedRow:
        """The row of a role, for the supervisor. Raises KeyError."""
        return SupervisedRow(self._segment, self._rows[role])

    def read(self) -> dict[str, RoleHealth]:
        """The health of all roles."""
        return {role: self._read_row(role, word) for role, word in self._rows.items()}

    def read_role(self, role: str) -> RoleHealth:
        """The health of one role. Raises KeyError."""
        return self._read_row(role, self._rows[role])

    def read_client(self, role: str) -> str:
        """The client whose request a role was handling when it died, empty if none. For a role without a process: no seqlock."""
        return read_client(self._words[self._rows[role] + CLIENT :][:CLIENT_CELLS])

    def _find_rows(self) -> Iterable[tuple[str, int]]:
        for row in range(self._words[ROW_COUNT]):
            word = FIRST_ROW_WORD + row * ROW_WORDS
            start = (word + NAME) * 8
            yield bytes(self._segment.view[start : start + self._words[word + NAME_LENGTH]]).decode(), word

    def _read_row(self, role: str, word: int) -> RoleHealth:
        words = self._words
        text, until_ms = self._read_call(word)
        return RoleHealth(
            role=role,
            state=STATES[words[word + STATE]],
            heartbeat_ms=words[word + HEARTBEAT],
            long_call=text if until_ms else None,
            long_call_until_ms=until_ms,
            pid=words[word + PID],
            start_count=words[word + START_COUNT],
        )

    def _read_call(self, word: int) -> tuple[str, int]:
        words = self._words
        start = (word + CALL_TEXT) * 8

        def read() -> tuple[str, int]:
            text = bytes(self._segment.view[start : start + words[word + CALL_LENGTH]])
            return text.decode(errors="replace"), words[word + CALL_UNTIL]

        return self._seqlock.read(word + CALL_GENERATION, read)
