"""Ledger: the target's specification, its commits, and its pending commit.

    _export/target.json                  its specification: format, schema version, layout, choice of records
    _export/bodies/<20 digits>.json      with inferred bodies: the JSON Schema, or null, of each topic found at that time
    _export/manifests/<20 digits>.json   one per commit: ranges, files, and the progress of each broker's log
    _export/pending/<20 digits>.json     a commit that has been decided and is being published
    _export/staging/<token>-<run>/       files that readers do not see

A commit is decided once the pending file with its number exists; all its files are complete and durable in staging by then. Publishing it (moving
files, the table's own commit) can be repeated from any point, and the next run does so if this one crashes. Afterwards the manifest with that number
is created, then the pending file is deleted.

None of these files is ever changed, and each is created only if its name is not taken (`Location.create`). So each number is used once: a run that was
paused while another one continued finds its number taken. A pending file whose number has a manifest is ignored: it was created by a run that was
paused until after the manifest had been created.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from spark_exporter.errors import TargetError, TargetMismatch
from spark_exporter.reading.record_choice import RecordChoice
from spark_exporter.reading.schema import SCHEMA_VERSION
from spark_exporter.storage.location import Location
from spark_exporter.writing.body_schema import BodySchema, TableBodies
from spark_exporter.writing.layout import Layout
from spark_exporter.writing.range_result import RangeResult, WrittenFile

FOLDER: Final = "_export"
_TARGET: Final = f"{FOLDER}/target.json"
_BODIES: Final = f"{FOLDER}/bodies"
_FIRST_BODIES: Final = f"{FOLDER}/bodies.json"  # targets of older versions have one file for all
_PENDING: Final = f"{FOLDER}/pending"
_MANIFESTS: Final = f"{FOLDER}/manifests"
STAGING: Final = f"{FOLDER}/staging"
_LONGEST: Final = 200  # limit: an error is one line


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """The specification of a target, set when it is created. Exports with other options are refused."""

    format: str
    layout: Layout
    choice: RecordChoice
    inflate: bool = True
    all_properties: bool = False
    schema_version: int = SCHEMA_VERSION
    body: dict[str, Any] | None = None
    """Typed bodies: their JSON Schema, or `{"topics": …}` with one per topic; empty: each topic's schema is inferred. None: bodies are not parsed."""

    @property
    def infers_bodies(self) -> bool:
        """Whether the schema of each topic is inferred from its first messages."""
        return self.body is not None and not self.body

    def as_json(self) -> dict[str, Any]:
        """The content of `target.json`."""
        return {**asdict(self), "layout": self.layout.as_json(), "choice": self.choice.as_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `as_json`."""
        layout, choice = Layout.from_json(data["layout"]), RecordChoice.from_json(data["choice"])
        return cls(**{**data, "layout": layout, "choice": choice})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one broker's log has been exported: `first` to `end`.

    The last good record is at `last_record` (-1: none) and has the store timestamp `last_store_ms`. By them the next run recognizes the log.
    """

    first: int
    end: int
    last_store_ms: int
    last_record: int = -1


@dataclass(frozen=True, slots=True)
class ExportedRange:
    """A range that was read; `end` is where its last record ended."""

    segment: int
    start: int
    end: int
    records: int
    rows: int
    damaged: int
    unfit: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit. `progress` has all brokers of the target, so that the last manifest is sufficient."""

    number: int
    run: str
    kind: str
    """`export`, `compact`, or a commit without files that only takes a number: `fence`, `rollback`."""
    broker_name: str
    progress: dict[str, Progress]
    ranges: tuple[ExportedRange, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    quarantine: tuple[WrittenFile, ...] = ()
    removed: tuple[str, ...] = ()
    """Files that are no longer part of the table, by table and name."""
    time_ms: int = 0
    token: int = 0
    """The token of the run's lock (`TargetLock`); it never decreases from one commit to the next."""

    @property
    def has_files(self) -> bool:
        """Whether there is something to publish."""
        return self.kind in {"export", "compact"}

    @classmethod
    def without_files(cls, kind: str, last: "Commit | None", run: str, token: int) -> Self:
        """A commit after the last one that changes nothing but takes a number."""
        return cls(
            last.number + 1 if last else 1,
            run,
            kind,
            last.broker_name if last else "",
            last.progress if last else {},
            time_ms=time.time_ns() // 1_000_000,
            token=token,
        )

    @property
    def end(self) -> int:
        """How far the broker's log is exported once this commit is published."""
        return self.progress[self.broker_name].end if self.broker_name in self.progress else 0

    @classmethod
    def of_ranges(
        cls,
        number: int,
        run: str,
        token: int,
        broker_name: str,
        progress: dict[str, Progress],
        results: list[RangeResult],
    ) -> Self:
        """A commit of consecutive ranges, with the resulting progress."""
        before = progress.get(broker_name)
        last = next((each for each in reversed(results) if each.last_record >= 0), None)
        made = Progress(
            before.first if before else results[0].start,
            results[-1].landed,
            last.last_store_ms if last else before.last_store_ms if before else 0,
            last.last_record if last else before.last_record if before else -1,
        )
        return cls(
            number,
            run,
            "export",
            broker_name,
            {**progress, broker_name: made},
            tuple(
                ExportedRange(each.segment, each.start, each.landed, each.records, each.rows, each.damaged, each.unfit)
                for each in results
            ),
            tuple(file for each in results for file in each.files),
            tuple(each.quarantine for each in results if each.quarantine is not None),
            time_ms=time.time_ns() // 1_000_000,
            token=token,
        )

    def as_json(self) -> bytes:
        """The content of the manifest."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """The inverse of `as_json`."""
        fields = json.loads(data)
        return cls(
            **{
                **fields,
                "progress": {name: Progress(**each) for name, each in fields["progress"].items()},
                "ranges": tuple(ExportedRange(**each) for each in fields["ranges"]),
                "files": tuple(WrittenFile(**each) for each in fields["files"]),
                "quarantine": tuple(WrittenFile(**each) for each in fields["quarantine"]),
                "removed": tuple(fields["removed"]),
            }
        )


class Ledger:
    """The `_export` folder of a target. Written by the holder of the target's lock; a run that lost the lock without noticing does no harm."""

    def __init__(self, work: Location) -> None:
        self._work = work

    def read_spec(self) -> dict[str, Any] | None:
        """The target's specification as JSON; None if it does not exist yet."""
        data = self._work.read(_TARGET)
        return None if data is None else self._parsed(_TARGET, data, json.loads)

    def find_spec(self) -> TargetSpec | None:
        """The target's specification; None if it does not exist yet. Raises TargetMismatch if the target has another schema version."""
        made = self.read_spec()
        if made is None:
            return None
        if made["schema_version"] != SCHEMA_VERSION:
            raise TargetMismatch(
                f"{self._work.uri} was created with schema_version {made['schema_version']}, not {SCHEMA_VERSION}; use the version of headrace that created it"
            )
        return TargetSpec.from_json(made)

    def check_spec(self, spec: TargetSpec) -> bool:
        """Whether the target exists. Raises TargetMismatch if it was created with another specification."""
        found = self.read_spec()
        if found is None:
            return False
        for name, wanted in spec.as_json().items():
            if found.get(name) != json.loads(json.dumps(wanted)):
                raise TargetMismatch(
                    f"{self._work.uri} was created with {name} {_short(found.get(name))}, not {_short(wanted)}; export to another target"
                )
        return True

    def write_spec(self, spec: TargetSpec) -> None:
        """Store the target's specification. Raises TargetMismatch if another run has created it with a different one in the meantime."""
        if not self._work.create(_TARGET, json.dumps(spec.as_json(), indent=1).encode()):
            self.check_spec(spec)

    def read_bodies(self, spec: TargetSpec) -> TableBodies:
        """The known schemas of typed bodies.

        An existing target's own schemas are used: the same schema may be given again with its properties in another order.
        """
        made = self.read_spec()
        body = spec.body if made is None else made.get("body")
        if body is None:
            return TableBodies()
        if body:
            return TableBodies.of_document(body)
        return TableBodies(
            by_table={topic: None if each is None else BodySchema(each) for topic, each in self.read_inferred().items()}
        )

    def read_inferred(self) -> dict[str, dict[str, Any] | None]:
        """The schemas of the topics found so far."""
        return self._inferred(self._work.list(_BODIES))

    def _inferred(self, names: list[str]) -> dict[str, dict[str, Any] | None]:
        known: dict[str, dict[str, Any] | None] = {}
        for name in (_FIRST_BODIES, *names):
            data = self._work.read(name)
            if data is not None:
                known = {**self._parsed(name, data, json.loads), **known}
        return known

    def add_inferred(self, found: dict[str, dict[str, Any] | None]) -> None:
        """Store the schemas of topics. They are final: the schema of a known topic is not replaced."""
        while True:
            names = self._work.list(_BODIES)
            known = self._inferred(names)
            new = {topic: schema for topic, schema in found.items() if topic not in known}
            data = json.dumps(new, indent=1, ensure_ascii=False).encode()
            if not new or self._work.create(f"{_BODIES}/{len(names) + 1:020}.json", data):
                return

    def read_pending(self) -> Commit | None:
        """The commit that is decided but not finished: a run is publishing it, or crashed while doing so."""
        # order: a pending file to be ignored was created after its manifest.
        names = self._work.list(_PENDING)
        finished = self._last_number()
        for name in names:
            if _number(name) > finished and (data := self._work.read(name)) is not None:
                commit: Commit = self._parsed(name, data, Commit.from_json)
                return commit
        return None

    def decide(self, commit: Commit) -> bool:
        """Decide a commit: from here on it will be published, by this run or the next. Returns False if another run has taken its number."""
        name = _pending(commit.number)
        if not self._work.create(name, commit.as_json()):
            return False
        if self._work.exists(_manifest(commit.number)):
            self._work.delete(name)
            return False
        return True

    def finish(self, commit: Commit) -> bool:
        """Record that a commit is published, or what its number was used for instead. Returns False if another run has used the number differently."""
        is_so = self._work.create(_manifest(commit.number), commit.as_json())
        if is_so:
            self._work.delete(_pending(commit.number))
        return is_so

    def last(self) -> Commit | None:
        """The last commit that was published."""
        names = self._names()
        return None if not names else self._read(names[-1])

    def _last_number(self) -> int:
        names = self._names()
        return _number(names[-1]) if names else 0

    def commits(self) -> Iterator[Commit]:
        """All commits, in order."""
        for name in self._names():
            yield self._read(name)

    def live_files(self) -> tuple[list[WrittenFile], list[WrittenFile]]:
        """The current files of the target: of messages and of quarantine."""
        files: dict[str, WrittenFile] = {}
        quarantine: dict[str, WrittenFile] = {}
        for commit in self.commits():
            for name in commit.removed:
                files.pop(name, None)
            files.update({f"{file.table}/{file.name}": file for file in commit.files})
            quarantine.update({file.name: file for file in commit.quarantine})
        return list(files.values()), list(quarantine.values())

    def clear_staging(self, run: str, token: int) -> None:
        """Delete a run's staging folder."""
        self._work.delete_folder(_staging(run, token))

    def clear_left(self, token: int) -> None:
        """Delete what runs with smaller tokens have left. Call it only when none of them can commit any more."""
        for each in self._work.folders(STAGING):
            if each < f"{token:020}":
                self._work.delete_folder(f"{STAGING}/{each}")
        finished = self._last_number()
        for name in self._work.list(_PENDING):
            if _number(name) <= finished:
                self._work.delete(name)
        for folder in (_PENDING, _MANIFESTS, _BODIES):
            self._work.clear_unfinished(folder)

    def staging(self, run: str, token: int) -> Location:
        """The staging folder of a run."""
        return self._work.at(_staging(run, token))

    def _names(self) -> list[str]:
        return [name for name in self._work.list(_MANIFESTS) if name.endswith(".json")]

    def _read(self, name: str) -> Commit:
        data = self._work.read(name)
        assert data is not None, name
        commit: Commit = self._parsed(name, data, Commit.from_json)
        return commit

    def _parsed(self, name: str, data: bytes, parse: Callable[[bytes], Any]) -> Any:
        try:
            return parse(data)
        except ValueError:
            raise TargetError(f"{self._work.uri}/{name} is corrupt: it is not JSON") from None


def _number(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".json"))


def _staging(run: str, token: int) -> str:
    return f"{STAGING}/{token:020}-{run}"


def _pending(number: int) -> str:
    return f"{_PENDING}/{number:020}.json"


def _manifest(number: int) -> str:
    return f"{_MANIFESTS}/{number:020}.json"


def _short(value: object) -> str:
    said = json.dumps(value)
    return said if len(said) <= _LONGEST else said[:_LONGEST] + "…"
