"""TargetLock: one run at a time on a target, each with its own token, greater than that of every earlier run.

On a disk it is a kernel lock on `_export/lock`, which is released when its holder ends for whatever reason. Elsewhere:

    _export/owners/<20 digits>.json      the run with this token; the run with the greatest token owns the target

Such a file is created only if its name is not taken (`Location.create`), so only one of several concurrent runs gets a token. Its owner rewrites it
every LEASE_S / 4. If it has not been written for LEASE_S, or its process has ended on this machine, the next run may take over the target. The old owner
may still be alive: then `was_abandoned` is set, and it must be fenced off (`owned_target`).
"""

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any, Final, Self

from spark_exporter.errors import ExportError, TargetBusy, TargetError
from spark_exporter.storage.location import Location, open_lock
from spark_exporter.targets.owner_process import describe_this_process, is_surely_dead

LOCK: Final = "_export/lock"
OWNERS: Final = "_export/owners"
LEASE_S: Final = 600.0
"""# limit: how long an owner may be silent if its death cannot be detected. The clocks of machines must differ by much less."""
_JOIN_S: Final = 60.0


class TargetLock:
    """The lock, taken when the context is entered. Raises TargetBusy, which names the owner.

    `token`: this run's, set on entering. `was_abandoned`: the previous run did not release the lock and may be alive; set it to False once that run is fenced off.
    """

    def __init__(self, work: Location, run: str, command: str, known_token: Callable[[], int] = lambda: 0) -> None:
        """`known_token`: returns the token of the target's last commit, because a target may have been copied without its locks."""
        self.token = 0
        self.was_abandoned = False
        self._work = work
        self._lease_s = LEASE_S
        self._known_token = known_token
        self._owner = {"run": run, "command": command, **describe_this_process(), "since": int(time.time())}
        self._file: IO[Any] | None = None
        self._left = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="target-lease", daemon=True)
        self._taken_over: TargetBusy | None = None

    def __enter__(self) -> Self:
        if self._work.is_local:
            self._take_file()
        else:
            self._take_token()
            self._renewer.start()
        return self

    def check(self) -> None:
        """Raises TargetBusy if another run is known to have taken over the target. Costs nothing; otherwise the ledger detects it."""
        if self._taken_over is not None:
            raise self._taken_over

    def confirm(self) -> None:
        """The same, but reads the owner files."""
        self.check()
        if self._file is None and self._greatest() != self.token:
            raise TargetBusy(_who(self._work, _read(self._work, self._greatest()) or {}))

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            # The next token is derived from the last commit's: a run without a commit leaves the target unchanged.
            self._file.truncate(0)
            self._file.close()
            return
        self._left.set()
        self._renewer.join(_JOIN_S)
        if self._renewer.is_alive():
            return  # the store does not respond: the lease expires by itself
        if self._greatest() == self.token:
            # Not deleted, because tokens never decrease. If the previous run could not be fenced off, the next run does it.
            self._write(left=not self.was_abandoned)
        else:
            self._work.delete(_name(self.token))

    def _take_file(self) -> None:
        self._file = open_lock(self._work, LOCK)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = self._file.read()
            self._file.close()
            raise TargetBusy(_who(self._work, _parsed(owner))) from None
        try:
            self.token = max(int(_parsed(self._file.read()).get("token", 0)), self._known_token()) + 1
        except ExportError:
            self._file.close()
            raise
        self._file.seek(0)
        self._file.truncate()
        self._file.write(json.dumps({**self._owner, "token": self.token}))
        self._file.flush()

    def _take_token(self) -> None:
        while True:
            before = self._greatest()
            owner = _read(self._work, before)
            if owner is None and before:
                continue  # a run with a greater token has just deleted it
            if owner is not None and _is_there(owner, self._lease_s):
                raise TargetBusy(_who(self._work, owner))
            self.token = max(before, self._known_token()) + 1
            if not self._work.create(_name(self.token), self._record(left=False)):
                continue
            ignores = self._work.create(_name(self.token), b"{}")
            # A run that was paused since it listed the owners may have created a token that was used and deleted long ago.
            if self._greatest() == self.token:
                if not ignores:
                    break
                raise TargetError(
                    f"{self._work.uri}: the object store ignores conditional writes (If-None-Match), so two runs could "
                    "write at once; export to a store that supports them"
                )
            self._work.delete(_name(self.token))
        self.was_abandoned = owner is not None and not owner.get("left")
        for name in self._work.list(OWNERS):
            if _token(name) < self.token:
                self._work.delete(name)

    def _renew(self) -> None:
        while not self._left.wait(self._lease_s / 4):
            try:
                if self._greatest() > self.token:
                    owner = _read(self._work, self._greatest())
                    self._taken_over = TargetBusy(f"{_who(self._work, owner or {})}; it took over the target")
                    return
                self._write(left=False)
            except ExportError:
                continue  # the store may respond again before the lease expires

    def _write(self, *, left: bool) -> None:
        self._work.write(_name(self.token), self._record(left=left))

    def _record(self, *, left: bool) -> bytes:
        is_over = left or self._left.is_set()
        return json.dumps(
            {**self._owner, "token": self.token, "seen": 0 if is_over else time.time(), "left": left}
        ).encode()

    def _greatest(self) -> int:
        names = self._work.list(OWNERS)
        return _token(names[-1]) if names else 0


def read_owner(work: Location) -> str | None:
    """The current owner's description of itself (JSON); None if there is none. Takes no lock, so that no run is refused because of it."""
    if work.is_local:
        owner = _parsed((work.read(LOCK) or b"").decode())
        return json.dumps(owner) if "pid" in owner and not is_surely_dead(owner) else None
    names = work.list(OWNERS)
    found = _read(work, _token(names[-1])) if names else None
    return json.dumps(found) if found is not None and _is_there(found, LEASE_S) else None


def _is_there(owner: dict[str, Any], lease_s: float) -> bool:
    return not owner.get("left") and time.time() - owner.get("seen", 0) < lease_s and not is_surely_dead(owner)


def _read(work: Location, token: int) -> dict[str, Any] | None:
    data = work.read(_name(token)) if token else None
    return None if data is None else _parsed(data.decode())


def _parsed(text: str) -> dict[str, Any]:
    """Read an owner's file, which may be incomplete if the owner crashed."""
    try:
        owner = json.loads(text)
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _name(token: int) -> str:
    return f"{OWNERS}/{token:020}.json"


def _token(name: str) -> int:
    return int(os.path.basename(name).removesuffix(".json"))


def _who(work: Location, owner: dict[str, Any]) -> str:
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner["since"]))
        return f"{work.uri}: in use by {owner['command']}, pid {owner['pid']} on {owner['host']} since {since}; wait until it has ended, or stop it"
    except KeyError:
        return f"another export is writing to {work.uri}; wait for it to finish"
