"""Export: from the target's offset to the end of the log, exactly once.

    open       check the source and the target; publish a commit that a crashed run had decided
    plan       from the offset that the target has reached to the end of the log; hold the segments
    write      an engine writes ranges into staging
    verify     each range must end where the next one starts; false cuts are joined and written again
    commit     verified ranges, in log order, so that the target always has the log from its start to one offset

After a crash, run it again: it continues at the offset that the target has stored. No manual clean-up is needed.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final

from spark_exporter.errors import SourceError, TargetError
from spark_exporter.fault_point import fault_point
from spark_exporter.planning.plan import LEAST_RANGE_BYTES, Plan, Source, join, open_source
from spark_exporter.reading.range_scan import ByteRange, ScanOptions
from spark_exporter.running.engines.engine import Engine
from spark_exporter.running.segment_hold import CLEANING_LEVEL, SegmentHold
from spark_exporter.storage.location import Location
from spark_exporter.targets.ledger import Commit, Ledger, Progress, TargetSpec
from spark_exporter.targets.open_sink import open_sink
from spark_exporter.targets.owned_target import OwnedTarget
from spark_exporter.targets.reach import check_reachable
from spark_exporter.targets.sink import Sink
from spark_exporter.writing.body_inference import infer_bodies
from spark_exporter.writing.range_files import WriteTask
from spark_exporter.writing.range_result import RangeResult

_COMMIT_EVERY_S: Final = 30.0
"""# limit: the work that a kill loses, against the number of commits in a table's history."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What to export, from where, to where. `target` as the format's sink expects it; `source` as `plan.open_source` does."""

    source: Path
    target: str
    spec: TargetSpec
    broker_name: str = "broker"
    cluster: str = ""
    from_offset: int | None = None
    to_offset: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    strict: bool = False
    compression: str = "zstd"
    least_range_bytes: int = LEAST_RANGE_BYTES
    commit_every_s: float = _COMMIT_EVERY_S
    cleaning_level: float = CLEANING_LEVEL
    flushed_offset: Callable[[], int | None] = field(default=lambda: None)
    """Returns how far a live store is durable; None if nothing writes to it, or if that is unknown."""
    warn: Callable[[str], None] = field(default=lambda _note: None)
    """Called at once with each of the summary's notes."""

    @property
    def scan_options(self) -> ScanOptions:
        """The options for the workers."""
        return ScanOptions(
            self.cluster,
            self.broker_name,
            self.spec.choice,
            inflate=self.spec.inflate,
            all_properties=self.spec.all_properties,
            strict=self.strict,
        )


@dataclass(slots=True)
class Summary:
    """The result of a run. Offsets are physical; times are in seconds."""

    start: int = 0
    end: int = 0
    records: int = 0
    rows: int = 0
    log_bytes: int = 0
    files: int = 0
    file_bytes: int = 0
    damaged: int = 0
    unfit: int = 0
    commits: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def add(self, other: "Summary") -> None:
        """Add another round of the same run (`--follow`)."""
        self.end = other.end
        for name in ("records", "rows", "log_bytes", "files", "file_bytes", "damaged", "unfit", "commits", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.notes += [note for note in other.notes if note not in self.notes]


class Export:
    """One run on a target, which it locks. Use it as a context manager; call `run_once` any number of times."""

    def __init__(self, request: ExportRequest, engine: Engine) -> None:
        self._request = request
        self._engine = engine
        self._run = f"{int(time.time())}-{secrets.token_hex(4)}"
        source = open_source(request.source)  # report a wrong source before anything is created
        _check_apart(source, request.target)
        check_reachable(request.target)
        if "#" not in request.target:
            engine.check_paths(source.segments, Location(request.target))
        self.sink: Sink = open_sink(request.spec.format, request.target)
        self.sink.open(request.spec)
        if "#" in request.target:  # only the catalog has the place of its folder
            engine.check_paths(source.segments, self.sink.work)
        self.ledger = Ledger(self.sink.work)
        self.sink.bodies = self.ledger.read_bodies(request.spec)
        self._noted: set[str] = set()
        self._owned = OwnedTarget(self.sink, self.ledger, self._run, "headrace export")

    def __enter__(self) -> "Export":
        self.ledger.check_spec(self._request.spec)
        self._owned.__enter__()
        try:
            if not self.ledger.check_spec(self._request.spec):
                self.ledger.write_spec(self._request.spec)
        except BaseException:
            self._owned.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owned.__exit__(kind, error, trace)

    def run_once(self, report: Callable[[int, int], None] = lambda _done, _total: None) -> Summary:
        """Export what the log has now. `report(done, total)` in bytes of log.

        Raises SourceError, TargetError, DamagedRecords, ExportError; what was committed before stays.
        """
        began = time.monotonic()
        if self.ledger.read_spec() is None:
            raise TargetError(f"{self.sink.work.uri} was deleted during the export; run the export again")
        source = open_source(self._request.source)
        last = self._owned.last()
        progress = dict(last.progress) if last else {}
        self._check_log(source, progress.get(self._request.broker_name))
        plan = make_plan(self._request, source, self._engine.workers, self._known_end(progress))
        summary = Summary(plan.start, plan.start)
        for note in _missing_files(plan):
            self._note(summary, note)
        with SegmentHold(source.commit_log, self._run, self._request.cleaning_level) as hold:
            ranges = hold.take(plan.ranges) if plan.ranges else []
            if hold.problem:
                self._note(summary, hold.problem)
            if self._request.spec.infers_bodies and ranges:
                self._infer_bodies(ranges, summary)
            committer = _Committer(self, progress, last.number + 1 if last else 1, summary)

            def told(done_bytes: int) -> None:
                self._owned.check()
                if hold.give_up_if_disk_is_full():
                    self._note(summary, hold.problem)
                report(done_bytes, plan.size_bytes)

            for result in self._write(ranges, told):
                committer.take(result, hold)
                if hold.give_up_if_disk_is_full():
                    self._note(summary, hold.problem)
            committer.commit()
        summary.seconds = time.monotonic() - began
        return summary

    def _infer_bodies(self, ranges: Sequence[ByteRange], summary: Summary) -> None:
        """Infer the schemas of new topics' bodies, and store them before anything is written with them."""
        known = self.ledger.read_inferred()
        found = infer_bodies(ranges, self._request.scan_options, frozenset(known))
        if found:
            self.ledger.add_inferred(found)
            self.sink.bodies = self.ledger.read_bodies(self._request.spec)
        for topic, schema in found.items():
            if schema is None:
                self._note(summary, f"{topic}: bodies are not JSON objects and are exported unparsed")

    def _note(self, summary: Summary, note: str | None) -> None:
        """Warn once per run, regardless of the number of rounds."""
        if note is not None and note not in self._noted:
            self._noted.add(note)
            summary.notes.append(note)
            self._request.warn(note)

    def _check_log(self, source: Source, known: Progress | None) -> None:
        """Raises SourceError if this is not the log that was exported to the target before."""
        if known and known.last_record >= 0 and not source.holds(known.last_record, known.last_store_ms):
            raise SourceError(
                f"{source.commit_log} is not the log that was exported before: it has a different record at {known.last_record}; "
                "export to another target, or under another broker name"
            )

    def _known_end(self, progress: dict[str, Progress]) -> int | None:
        """How far this broker's log has been exported. The table's own value takes precedence over the manifests."""
        said = self.sink.find_end(self._request.broker_name)
        known = progress.get(self._request.broker_name)
        if said is None:
            return known.end if known else None
        return said

    def _write(self, ranges: Sequence[ByteRange], report: Callable[[int], None]) -> Iterator[RangeResult]:
        """Yields the verified results of the ranges, in log order; ranges with false cuts are written again."""
        task = WriteTask(
            self._request.scan_options,
            self._request.spec.layout,
            self._owned.staging,
            self.sink.dropped,
            self._request.compression,
            writer=self.sink.writer,
            bodies=self.sink.bodies,
        )
        left = list(ranges)
        done: dict[int, RangeResult] = {}
        for result in self._engine.write(ranges, task, report) if ranges else ():
            fault_point("export.range_written")
            done[result.start] = result
            while left and left[0].start in done and done[left[0].start].is_of(left[0]):
                yield done.pop(left.pop(0).start)
        while left:
            if len(left) > 1 and left[0].segment == left[1].segment:
                left[:2] = [join(left[:2])]
            elif done.get(left[0].start) is not None:
                raise SourceError(f"{left[0].segment.path} was changed while it was read; run the export again")
            for result in self._engine.write(left[:1], task, lambda _done: None):
                done[result.start] = result
            while left and left[0].start in done and done[left[0].start].is_of(left[0]):
                yield done.pop(left.pop(0).start)

    def commit(self, number: int, progress: dict[str, Progress], results: list[RangeResult]) -> Commit:
        """Decide and publish a commit."""
        commit = Commit.of_ranges(number, self._run, self._owned.token, self._request.broker_name, progress, results)
        self._owned.commit(commit)
        return commit

    @property
    def commit_every_s(self) -> float:
        """How long verified ranges are collected (s)."""
        return self._request.commit_every_s


class _Committer:
    """Collects verified ranges and commits them together."""

    def __init__(self, export: Export, progress: dict[str, Progress], number: int, summary: Summary) -> None:
        self._export = export
        self._progress = progress
        self._number = number
        self._summary = summary
        self._gathered: list[RangeResult] = []
        self._since = time.monotonic()

    def take(self, result: RangeResult, hold: SegmentHold) -> None:
        """Add a range. Commits when it is time."""
        self._gathered.append(result)
        if time.monotonic() - self._since >= self._export.commit_every_s:
            self.commit()
            hold.release_through(result.landed)

    def commit(self) -> None:
        """Commit the collected ranges."""
        self._since = time.monotonic()
        if not self._gathered:
            return
        commit = self._export.commit(self._number, self._progress, self._gathered)
        self._progress = commit.progress
        self._number += 1
        summary = self._summary
        summary.end = commit.end
        summary.commits += 1
        summary.files += len(commit.files)
        summary.file_bytes += sum(each.size_bytes for each in commit.files)
        for each in self._gathered:
            summary.records += each.records
            summary.rows += each.rows
            summary.damaged += each.damaged
            summary.unfit += each.unfit
            summary.log_bytes += each.landed - each.start
        self._gathered = []


def _check_apart(source: Source, target: str) -> None:
    """Raises TargetError for a target inside a store: brokers refuse to start if their folders contain other files."""
    if "://" not in target:
        log, folder = source.commit_log.resolve(), Path(target).resolve()
        if folder == log.parent or log in (folder, *folder.parents):
            raise TargetError(f"target {target} is inside the source store; export to another folder")


def _missing_files(plan: Plan) -> list[str]:
    """Warnings about gaps in an archive, whose messages cannot be exported."""
    return [
        f"{after.segment.base - before.segment.end:,} bytes of the log are missing at {before.segment.end:,}: their files do not exist"
        for before, after in pairwise(plan.ranges)
        if before.segment != after.segment and before.segment.end != after.segment.base
    ]


def make_plan(request: ExportRequest, source: Source, workers: int, known_end: int | None) -> Plan:
    """The plan for what is left to export. Raises SourceError if log and target do not belong together."""
    flushed_offset = request.flushed_offset()
    end = source.find_end(known_end, flushed_offset)
    if not source.segments:
        if (
            known_end is not None or flushed_offset is not None
        ):  # everything is exported and deleted, or the broker is new
            return Plan((), known_end or 0, known_end or 0)
        raise SourceError(f"{source.commit_log} contains no records; check the path")
    first = source.first_offset
    if known_end is None:
        start = first
        if request.from_offset is not None:
            start = source.find_record_from(request.from_offset, end)
        if request.from_ms is not None:
            start = max(start, source.find_record_since(request.from_ms, end))
    else:
        start = known_end
        if end < start:
            raise SourceError(
                f"{source.commit_log} ends at {end}, but it was exported up to {start}: "
                "the store is different or was truncated; export to another target"
            )
        if start < first:
            raise SourceError(
                f"{source.commit_log} starts at {first}, but it was exported only up to {start}: the records in between were "
                "deleted; export to another target, or continue after the gap with another --broker name"
            )
    if request.to_offset is not None:
        end = min(end, max(start, source.find_record_from(request.to_offset, end)))
    if request.to_ms is not None:
        end = min(end, max(start, source.find_record_since(request.to_ms, end)))
    return source.plan(start, end, workers, least_range_bytes=request.least_range_bytes)


def follow(
    export: Export,
    every_s: float,
    report: Callable[[Summary], None],
    is_wanted: Callable[[], bool] = lambda: True,
    wait: Callable[[float], None] = time.sleep,
) -> Summary:
    """Export a live log in rounds, every `every_s` seconds, while `is_wanted()`: `headrace export run --follow`. Returns the sum of all rounds.

    Each round commits what the broker has flushed since the last one, and calls `report` with its summary. Short rounds produce small files;
    `compact` merges them.
    """
    total: Summary | None = None
    while is_wanted():
        began = time.monotonic()
        done = export.run_once()
        report(done)
        total = total or Summary(done.start)
        total.add(done)
        if is_wanted():
            wait(max(0.0, every_s - (time.monotonic() - began)))
    return total or Summary()
