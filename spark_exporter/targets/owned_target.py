"""OwnedTarget: a target owned by one run. Completes pending work of earlier runs, and makes this run's commits.

On entering, the lock is taken, and a commit that a crashed run had decided is published. A run that may still be alive although its lock has expired is
fenced off: a commit without files takes the number that it would have to use (`fence`). Then its staged files are deleted. If it resumes, it fails at
its next commit.
"""

from dataclasses import replace
from types import TracebackType
from typing import Self

from spark_exporter.errors import ExportError, TargetBusy, TargetError
from spark_exporter.fault_point import fault_point
from spark_exporter.storage.location import Location
from spark_exporter.targets.ledger import Commit, Ledger
from spark_exporter.targets.sink import Sink, find_lost, withdraw
from spark_exporter.targets.target_lock import TargetLock


class OwnedTarget:
    """A context manager. Raises TargetBusy if another run owns the target, on entering or later."""

    def __init__(self, sink: Sink, ledger: Ledger, run: str, command: str) -> None:
        self.run = run
        self._sink = sink
        self._ledger = ledger
        self._lock = TargetLock(sink.work, run, command, self._last_token)

    @property
    def token(self) -> int:
        """The token of the lock, for commits."""
        return self._lock.token

    @property
    def staging(self) -> Location:
        """The folder to which this run writes its files."""
        return self._ledger.staging(self.run, self.token)

    def __enter__(self) -> Self:
        self._lock.__enter__()
        try:
            self._recover()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._ledger.clear_staging(self.run, self.token)
            if isinstance(error, (ExportError, OSError)):
                self._lock.confirm()  # whoever took over the target deletes the staged files: then that is the cause
        finally:
            self._lock.__exit__(kind, error, trace)

    def check(self) -> None:
        """Raises TargetBusy if another run is known to have taken over the target."""
        self._lock.check()

    def last(self) -> Commit | None:
        """The last commit. Raises TargetBusy if it was made by a later run."""
        self.check()
        last = self._ledger.last()
        if last is not None and last.token > self.token:
            raise self._lost()
        return last

    def commit(self, commit: Commit) -> None:
        """Decide, publish and finish a commit. Raises TargetError if files reported by workers are missing; nothing is decided then."""
        self.check()
        files = {file.staged: file.size_bytes for file in (*commit.files, *commit.quarantine)}
        there = self.staging.sizes() if files else {}
        missing = [name for name, size in files.items() if there.get(name) != size]
        if missing:
            raise TargetError(
                f"{self.staging.uri}: {len(missing)} of {len(files)} files written by workers are missing ({missing[0]}): "
                "use a target that all workers can access"
            )
        fault_point(f"{commit.kind}.deciding")
        if not self._ledger.decide(commit):
            raise self._lost()
        fault_point(f"{commit.kind}.decided")
        try:
            self._sink.publish(commit, self.staging)
        except TargetError:
            self._lock.confirm()  # a later run may have finished it, and changed the table since
            raise
        fault_point(f"{commit.kind}.published")
        if not self._ledger.finish(commit):
            raise self._lost()
        fault_point(f"{commit.kind}.finished")

    def _last_token(self) -> int:
        last = self._ledger.last()
        return last.token if last else 0

    def _lost(self) -> TargetBusy:
        return TargetBusy(
            f"{self._sink.work.uri}: another run took over the target after this run's lock expired; run the export again"
        )

    def _recover(self) -> None:
        self._finish_pending()
        while self._lock.was_abandoned and not self._fence():
            self._finish_pending()  # it has decided another one in the meantime
        self._lock.was_abandoned = False
        self._ledger.clear_left(self.token)

    def _fence(self) -> bool:
        commit = Commit.without_files("fence", self.last(), self.run, self.token)
        return self._ledger.decide(commit) and self._ledger.finish(commit)

    def _finish_pending(self) -> None:
        pending = self._ledger.read_pending()
        if pending is None:
            return
        if pending.has_files and not self._is_published(pending):
            staging = self._ledger.staging(pending.run, pending.token)
            moves = self._sink.moves(pending)
            lost = find_lost(moves, staging)
            if lost:
                self._withdraw(pending, staging, lost)
                return
            self._sink.publish(pending, staging)
        self._ledger.finish(pending)

    def _is_published(self, commit: Commit) -> bool:
        """Whether the table itself contains the commit. What happened to its files since does not matter."""
        said = self._sink.find_end(commit.broker_name) if commit.kind == "export" else None
        return said is not None and said >= commit.end

    def _withdraw(self, commit: Commit, staging: Location, lost: list[str]) -> None:
        """Roll back a decided commit whose files are lost. Its ranges will be exported again."""
        if self._sink.has_begun(commit):
            raise TargetError(
                f"{self._sink.work.uri}: commit {commit.number} can be neither completed nor rolled back: {len(lost)} of its files are "
                f"missing ({lost[0]}), but part of it is already in the tables; export to another target"
            )
        withdraw(self._sink.moves(commit), staging, self._lock.confirm)
        nothing = Commit.without_files("rollback", self._ledger.last(), self.run, self.token)
        self._ledger.finish(replace(nothing, number=commit.number))
