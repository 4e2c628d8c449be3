"""The health page: the health of each role. A row for each role; each of its cells has one writer.

    segment   word 0…7     header (segment_header); word 3 is the count of rows
              word 8…      rows (`health_row`)

While a role has no process (before the fork, after the wait) the supervisor writes its cells: a hand-over, not a
second writer. Times are of the monotonic clock, which all processes of a machine share; they are meaningless after a reboot.
"""

from collections.abc import Iterable

from msgspec import Struct

from ipc.cells import store_bytes, store_cell
from ipc.current_client import CLIENT_CELLS, read_client
from ipc.health_row import (
    CALL_GENERATION,
    CALL_LENGTH,
    CALL_TEXT,
    CALL_UNTIL,
    CLIENT,
    HEARTBEAT,
    NAME,
    NAME_BYTES,
    NAME_LENGTH,
    PID,
    ROW_WORDS,
    START_COUNT,
    STATE,
    STATES,
    HealthRow,
    monotonic_ms,
)
from ipc.posix import Segment
from ipc.segment_header import HEADER_WORDS, magic_of, store_header
from ipc.seqlock import Seqlock

MAGIC = magic_of(b"HRhealth")

ROW_COUNT = 3
FIRST_ROW_WORD = HEADER_WORDS


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
