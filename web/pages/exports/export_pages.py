"""ExportPages: the targets, the exports that run or ran, and how administrators start and stop one.

The console writes nothing and starts no process: it asks the appliance's supervisor, which runs an export on its own (`appliance/export_runs`).
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from web.accounts.audit_log import AuditLog
from web.cluster.cluster import Cluster
from web.cluster.topic_reader import TopicReader
from web.errors import Invalid, NotFound, QueryFailed
from web.pages.exports.export_reads import ExportReads, Run
from web.pages.exports.target_download import ARCHIVE_TYPE, TargetDownload, is_finished
from web.pages.exports.target_files import BrokerProgress, Target
from web.pages.groups.resets import parse_time
from web.paths import path_of
from web.routes import Access, Change, Outcome, Problem, Query, Raw, Route, View, Visit
from web.sampling.own_appliance import OwnAppliance
from web.tables.table import Column, Kind, Table

_MENU: Final = "Exports"
_FORMATS: Final = ("parquet", "iceberg", "delta")
_PACKAGES: Final = {"parquet": "pyarrow", "iceberg": "pyiceberg", "delta": "deltalake"}
_NAMES: Final = {"pyiceberg": "Iceberg", "deltalake": "Delta"}
_EXTRAS: Final = {"pyarrow": "export-local", "pyiceberg": "iceberg", "deltalake": "delta"}
_MOST_TOPICS: Final = 100


class RunRow(msgspec.Struct, frozen=True):
    """An export that was started here since the appliance started."""

    started: int
    target: str
    format: str
    topics: list[str]
    state: str
    progress: float | None
    """The share of the log that was read; None while this is not known."""
    ended: int | None
    output: str
    """The last line that it printed."""


class TargetRow(msgspec.Struct, frozen=True):
    """A target in the folder of exports."""

    target: str
    format: str
    topics: list[str]
    exported_until: int
    """When the last exported message was stored; with several brokers, of the one that is furthest behind."""
    rows: int | None
    size: int | None
    last_commit: int
    owner: str
    problem: str


class StartForm(msgspec.Struct, forbid_unknown_fields=True):
    """A new export, or the next one to the same target."""

    target: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    format: Literal["parquet", "iceberg", "delta"] = "parquet"
    topics: Annotated[str, msgspec.Meta(max_length=30_000)] = ""
    """Separated by spaces, commas or lines; empty: all."""
    broker: Annotated[str, msgspec.Meta(max_length=40)] = ""
    begin: Annotated[str, msgspec.Meta(max_length=40)] = ""
    end: Annotated[str, msgspec.Meta(max_length=40)] = ""


class StopForm(msgspec.Struct, forbid_unknown_fields=True):
    """Which run of the target is to end."""

    run: int


_TARGET_COLUMNS: Final[tuple[Column[TargetRow], ...]] = (
    Column("target", "Target", link=lambda row: path_of("exports", row.target)),
    Column("format", "Format", says=lambda row: (row.format.capitalize(), {})),
    Column("topics", "Topics", Kind.LIST, help="Empty: all topics except the brokers' own."),
    Column("exported_until", "Exported until", Kind.TIME, help="When the last exported message was stored."),
    Column("rows", "Messages", Kind.NUMBER),
    Column("size", "Written", Kind.BYTES),
    Column("last_commit", "Last written", Kind.TIME),
    Column("owner", "In use by", is_shown_if_any=True),
    Column("problem", "Problem", is_shown_if_any=True),
)
_RUN_COLUMNS: Final[tuple[Column[RunRow], ...]] = (
    Column("started", "Started at", Kind.TIME),
    Column("target", "Target", link=lambda row: path_of("exports", row.target)),
    Column("format", "Format", says=lambda row: (row.format.capitalize(), {})),
    Column("topics", "Topics", Kind.LIST),
    Column("state", "State", is_word=True),
    Column("progress", "Progress", Kind.SHARE),
    Column("ended", "Ended at", Kind.TIME),
    Column("output", "Output"),
)
_PROGRESS_COLUMNS: Final[tuple[Column[BrokerProgress], ...]] = (
    Column("broker", "Broker"),
    Column("first", "Exported from offset", Kind.NUMBER),
    Column("end", "Exported to offset", Kind.NUMBER),
    Column("last_stored", "Exported until", Kind.TIME),
)


def missing_packages() -> dict[str, str]:
    """The formats that cannot be written here, and for each the package that is not installed."""
    missing = [package for package in _EXTRAS if find_spec(package) is None]
    return {
        name: next(one for one in missing if one in {"pyarrow", package})
        for name, package in _PACKAGES.items()
        if package in missing or "pyarrow" in missing
    }


class ExportPages:
    """The pages of exports."""

    def __init__(
        self,
        cluster: Cluster,
        own: OwnAppliance,
        audit: AuditLog,
        find_missing: Callable[[], Mapping[str, str]] = missing_packages,
    ) -> None:
        self._topics = TopicReader(cluster)
        self._own = own
        self._reads = ExportReads(own)
        self._download = TargetDownload(self._reads, audit)
        self._find_missing = find_missing

    def routes(self) -> list[Route]:
        """What it serves."""
        admin = Access.ADMIN
        return [
            Query(
                "/exports", self.list_targets, "List the targets of exports and the exports.", menu=_MENU, shortcut="e"
            ),
            Query("/exports/<target:str>", self.show, "Show a target and its exports.", section=_MENU),
            Raw(
                "/exports/<target:str>/download",
                self._download.answer,
                Access.VIEWER,
                summary="Download the files of a target as a tar archive.",
                answers=(ARCHIVE_TYPE,),
            ),
            Change(
                "/exports",
                StartForm,
                self.start,
                "export.start",
                "Start an export.",
                admin,
                lambda _, form: form.target,
            ),
            Change("/exports/<target:str>/stop", StopForm, self.stop, "export.stop", "Stop an export.", admin),
        ]

    # ---- queries

    async def list_targets(self, visit: Visit) -> View:
        """All targets, and the last runs."""
        if not self._own.exists:
            return View("Exports", "exports/none.html", {}, [_target_table([]), _run_table([])])
        exports = await self._reads.exports()
        targets, left_out = await self._reads.read(lambda files: files.list(Path(exports.folder)))
        topic = visit.arguments.get("topic", "")
        data = {
            "folder": exports.folder,
            "brokers": exports.brokers,
            "running": exports.running,
            "asked": topic,
            "suggested": re.sub(r"[^A-Za-z0-9._-]+", "-", topic).strip("-._")[:64],
            **self._formats(),
        }
        problems = []
        if left_out:
            values = {"folder": exports.folder, "count": left_out}
            problems.append(Problem("{folder} has {count} more folders than are shown", values))
        tables: list[Table[Any]] = [_target_table(targets), _run_table(exports.runs)]
        return View("Exports", "exports/list.html", data, tables, problems=problems)

    async def show(self, visit: Visit) -> View:
        """One target."""
        name = visit.path["target"]
        exports = await self._reads.exports()
        target = await self._reads.read(lambda files: files.find(Path(exports.folder), name))
        runs = [run for run in exports.runs if run.target == name]
        if target is None and not runs:
            raise NotFound("nothing was exported to {name}", "Check its name in the list of exports.", name=name[:80])
        running = next((run for run in runs if run.is_running), None)
        data = {
            "target": target,
            "path": str(Path(exports.folder) / name),
            "brokers": exports.brokers,
            "running": running,
            "last": runs[0] if runs else None,
            "download": path_of("exports", name, "download") if running is None and is_finished(target) else None,
            "next_broker": runs[0].broker if runs else "",
            **self._formats(),
        }
        progress = Table(
            "progress",
            BrokerProgress,
            target.progress if target else (),
            _PROGRESS_COLUMNS,
            empty="Nothing has been exported yet.",
        )
        problems = [target.problem] if target and target.problem else []
        return View("Exports", "exports/show.html", data, [progress, _run_table(runs)], name, problems)

    # ---- changes

    async def start(self, _visit: Visit, form: StartForm) -> Outcome:
        """Asks the supervisor to start an export."""
        missing = self._find_missing()
        if form.format in missing:
            raise QueryFailed(
                "the package {package} is not installed", _advice(missing[form.format]), package=missing[form.format]
            )
        topics = list(dict.fromkeys(re.split(r"[\s,]+", form.topics.strip()))) if form.topics.strip() else []
        if len(topics) > _MOST_TOPICS:
            raise Invalid(
                "too many topics: {count}",
                "Enter at most {most} topics, or leave the field empty to export all.",
                count=len(topics),
                most=_MOST_TOPICS,
            )
        if topics:
            known = set(await self._topics.names())
            unknown = [topic for topic in topics if topic not in known]
            if unknown:
                raise Invalid(
                    "the topic {topic} does not exist", "Check its name in the list of topics.", topic=unknown[0][:200]
                )
        order = {
            "target": form.target,
            "format": form.format,
            "topics": topics,
            "broker": form.broker,
            "from_ms": parse_time(form.begin) if form.begin else None,
            "to_ms": parse_time(form.end, is_end=True) if form.end else None,
        }
        await self._own.request({"command": "start-export", **order})
        return Outcome("The export has started.", {}, path_of("exports", form.target), after=order)

    async def stop(self, visit: Visit, form: StopForm) -> Outcome:
        """Asks the supervisor to stop an export."""
        target = visit.path["target"]
        run = next(
            (run for run in (await self._reads.exports()).runs if run.id == form.run and run.target == target), None
        )
        if run is None:
            raise NotFound("the export does not exist", "Reload the page.")
        await self._own.request({"command": "stop-export", "id": run.id})
        return Outcome(
            "The export is being stopped. Committed data is kept; the next export continues from there.",
            {},
            path_of("exports", target),
            before={"state": run.state, "done_bytes": run.done_bytes, "total_bytes": run.total_bytes},
        )

    # ----

    def _formats(self) -> dict[str, Any]:
        missing = self._find_missing()
        return {
            "formats": [name for name in _FORMATS if name not in missing],
            "advice": [_advice(package) for package in dict.fromkeys(missing.values())],
            "environment": sys.prefix,
        }


def _advice(package: str) -> str:
    """Texts that are translated whole."""
    if package == "pyarrow":
        return "Install the package headrace-exporter (Debian, RPM), or run in the appliance's virtual environment: pip install 'headrace-appliance[export-local]'. Then reload this page."
    return f"To export to {_NAMES[package]}, run in the appliance's virtual environment: pip install 'headrace-appliance[{_EXTRAS[package]}]'. Then reload this page. The Debian and RPM packages export to Parquet only; for other formats, install Headrace in a virtual environment."


def _target_table(targets: Sequence[Target]) -> Table[TargetRow]:
    rows = [
        TargetRow(
            one.target,
            one.format,
            list(one.topics),
            min((each.last_stored for each in one.progress), default=0),
            one.rows,
            one.written_bytes,
            one.last_commit,
            one.owner,
            one.problem,
        )
        for one in targets
    ]
    return Table(
        "targets",
        TargetRow,
        rows,
        _TARGET_COLUMNS,
        search=("target", "topics"),
        sort="target",
        empty="Nothing has been exported yet.",
    )


def _run_table(runs: Sequence[Run]) -> Table[RunRow]:
    rows = [
        RunRow(
            run.id,
            run.target,
            run.format,
            run.topics,
            run.state,
            run.done_bytes / run.total_bytes if run.total_bytes else None,
            run.ended_ms,
            run.output[-1] if run.output else "",
        )
        for run in runs
    ]
    return Table(
        "runs",
        RunRow,
        rows,
        _RUN_COLUMNS,
        sort="-started",
        empty="No export has been started here since the appliance started.",
    )
