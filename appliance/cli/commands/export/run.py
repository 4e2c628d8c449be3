"""`headrace export run SOURCE TARGET`."""

import logging
import signal
import sys
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from appliance.cli.counted import counted
from appliance.cli.exporter import exporter_errors, flushed_offset_of, wait_until_flushed
from appliance.cli.interruptible import interruptible
from appliance.cli.progress import ProgressLine

if TYPE_CHECKING:  # slow to import, and of no use to --help
    from spark_exporter.running.engines.engine import Engine
    from spark_exporter.running.export import ExportRequest, Summary


_LONGEST_NAME: Final = 170  # limit: of a broker in the names of files, quoted


@click.command("run", short_help="Export new messages to a table.")
@click.argument("source")
@click.argument("target")
@click.option(
    "--format", "table_format", type=click.Choice(["parquet", "iceberg", "delta"]), default="parquet", show_default=True,
    help="Table format of the target.",
)  # fmt: skip
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    help="Engine that runs the export. Default: spark if --master is given, or if Java and pyspark are installed and there are "
    "at least 256 MiB to export; otherwise local.",
)
@click.option("--master", metavar="URL", help="The Spark master, such as spark://host:7077 or local[4].")
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="How many ranges are exported in parallel: processes of the local engine, tasks of Spark. Default: one per core.",
)
@click.option(
    "--broker",
    "broker_name",
    metavar="NAME",
    default="broker",
    show_default=True,
    help="The broker's name. It is written to each row and identifies the log in the target.",
)
@click.option("--cluster", metavar="NAME", default="", help="The cluster's name, written to each row.")
@click.option("--topic", "topics", metavar="TOPIC", multiple=True, help="Export only this topic. Can be repeated.")
@click.option(
    "--include-system",
    is_flag=True,
    help="Include the broker's system topics: half, op, delay, timer and trace messages.",
)
@click.option(
    "--group-by",
    type=click.Choice(["topic"]),
    help="Write each topic to files of its own, in a folder named after the topic.",
)
@click.option(
    "--small-topics",
    metavar="MIB",
    type=click.IntRange(1, 64),
    help="With --group-by topic: write separate files only for topics with at least this many MiB of log per day in a worker's range; smaller topics share files. Topic folders are not used; the topic is a column.",
)
@click.option("--table-per-topic", is_flag=True, help="Write one table per topic.")
@click.option(
    "--from",
    "from_place",
    metavar="TIME|OFFSET",
    help="For a new target: start at this ISO time (local time, unless it has a zone) or physical offset.",
)
@click.option(
    "--to",
    "to_place",
    metavar="TIME|OFFSET",
    help="Stop before this ISO time (local time, unless it has a zone) or physical offset.",
)
@click.option("--raw-body", is_flag=True, help="Keep bodies as stored; do not decompress them.")
@click.option(
    "--body",
    metavar="json[:SCHEMA.json]",
    help="Parse JSON bodies into typed columns. SCHEMA.json is a JSON Schema for all topics, or one per topic "
    '({"topics": {TOPIC: SCHEMA, ...}}). Without it, the schema of each topic is inferred from its first messages.',
)
@click.option(
    "--raw-properties",
    is_flag=True,
    help="Keep UNIQ_KEY, KEYS and TAGS in the properties map, in addition to their own columns.",
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "none"]),
    default="zstd",
    show_default=True,
    help="Compression of the files.",
)
@click.option(
    "--follow",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Keep running and commit at this interval, until interrupted.",
)
@click.option(
    "--progress",
    type=click.Choice(["auto", "lines"]),
    default="auto",
    show_default=True,
    help="How progress is printed. auto: a bar, if standard error is a terminal; lines: one line per second, for programs.",
)
@click.option("--strict", is_flag=True, help="Fail on damaged records instead of writing them to quarantine.")
@click.option("--dry-run", is_flag=True, help="Show what would be read; write nothing.")
def command(
    source: str,
    target: str,
    table_format: str,
    engine: str | None,
    master: str | None,
    workers: int | None,
    broker_name: str,
    cluster: str,
    topics: tuple[str, ...],
    include_system: bool,
    group_by: str | None,
    small_topics: int | None,
    table_per_topic: bool,
    from_place: str | None,
    to_place: str | None,
    raw_body: bool,
    body: str | None,
    raw_properties: bool,
    compression: str,
    follow: float | None,
    progress: str,
    strict: bool,
    dry_run: bool,
) -> None:
    """Export the CommitLog at SOURCE to TARGET, exactly once: later runs add only new messages.

    SOURCE is the root folder of a store, the data folder of an appliance, or a folder of CommitLog files, of Headrace or of
    Apache RocketMQ, whether or not a broker is using it. It is never modified. TARGET is a folder or URL; for Iceberg
    also CATALOG_URI#NAMESPACE.TABLE.

    After a crash, run the same command again. Only one run at a time may write to a target: a second run
    reports the first one and exits.
    """
    if not 0 < len(quote(broker_name)) <= _LONGEST_NAME:
        raise click.BadParameter(
            f"the name has {len(quote(broker_name))} characters after URL encoding; expected 1 to {_LONGEST_NAME}",
            param_hint="--broker",
        )
    with exporter_errors():
        from spark_exporter.reading.record_choice import RecordChoice  # noqa: PLC0415
        from spark_exporter.running.export import ExportRequest  # noqa: PLC0415
        from spark_exporter.targets.ledger import TargetSpec  # noqa: PLC0415
        from spark_exporter.writing.body_schema import has_topics  # noqa: PLC0415
        from spark_exporter.writing.layout import Layout  # noqa: PLC0415

        typed = _body_schema(body, raw_body=raw_body)
        # Where schemas are of one topic each, so are tables.
        by_topic = typed is not None and (not typed or has_topics(typed))
        layout = Layout(group_by == "topic", table_per_topic or by_topic, (small_topics or 0) << 20)
        if small_topics and (not layout.group_by_topic or layout.table_per_topic):
            raise click.UsageError(
                "--small-topics requires --group-by topic and cannot be combined with --table-per-topic"
            )
        choice = RecordChoice(frozenset(topics) if topics else None, include_system)
        from_offset, from_ms = _place(from_place, "--from")
        to_offset, to_ms = _place(to_place, "--to")
        request = ExportRequest(
            Path(source),
            target,
            TargetSpec(table_format, layout, choice, inflate=not raw_body, all_properties=raw_properties, body=typed),
            broker_name,
            cluster,
            from_offset,
            to_offset,
            from_ms,
            to_ms,
            strict,
            compression,
            flushed_offset=flushed_offset_of(Path(source)),
            warn=_warn,
        )
        if dry_run:
            _print_plan(request, workers)
            return
        chosen = _choose_engine(engine, master, workers)
        if follow is None and (missing := wait_until_flushed(request.source)):
            _warn(f"{missing:,} bytes of the log are not flushed yet; the next run exports them")
        with interruptible():
            try:
                _run(request, chosen, follow, in_lines=progress == "lines")
            finally:
                chosen.close()


def _run(request: "ExportRequest", engine: "Engine", follow_s: float | None, *, in_lines: bool) -> None:
    from spark_exporter.running.export import (  # noqa: PLC0415
        Export,
        Summary,
        follow,
    )

    # py4j logs an interrupt with its trace, where there is no handler on standard error; what ends an export is one line.
    logging.getLogger().addHandler(logging.NullHandler())
    # A polite end is an end: the lock is let go, staging cleared.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with Export(request, engine) as export:
        if follow_s is None:
            with ProgressLine(in_lines=in_lines) as line:
                summary = export.run_once(partial(line.show, "log"))
        else:
            total: list[Summary] = []

            def told(done: Summary) -> None:
                total.append(done)
                if done.rows or done.damaged:
                    print(f"{_now()} {done.rows:,} rows, up to offset {done.end:,}{_lag(request, done)}", flush=True)

            try:
                summary = follow(export, follow_s, told)
            except KeyboardInterrupt:
                summary = Summary(total[0].start if total else 0)
                for each in total:
                    summary.add(each)
    _print_summary(request, engine, summary)


def _warn(note: str) -> None:
    """At once: what it says may have to be seen to before the export ends."""
    wipe = "\r\x1b[2K" if sys.stderr.isatty() else ""
    print(f"{wipe}headrace: {note}", file=sys.stderr, flush=True)


def _lag(request: "ExportRequest", done: "Summary") -> str:
    flushed = request.flushed_offset()
    return "" if flushed is None else f", {max(0, flushed - done.end):,} bytes behind"


def _now() -> str:
    return time.strftime("%H:%M:%S")


def _place(text: str | None, option: str) -> tuple[int | None, int | None]:
    """An offset, or a time in ms."""
    if text is None:
        return None, None
    if text.isdecimal():
        return int(text), None
    try:
        return None, int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text}: expected a physical offset or a time such as 2026-11-21T08:00", param_hint=option
        ) from None


def _body_schema(text: str | None, *, raw_body: bool) -> dict[str, Any] | None:
    """As `TargetSpec` wants it."""
    from spark_exporter.writing.body_schema import read_document  # noqa: PLC0415

    if text is None:
        return None
    kind, _, path = text.partition(":")
    if kind != "json":
        raise click.BadParameter(f"{text}: expected json or json:SCHEMA.json", param_hint="--body")
    if raw_body:
        raise click.BadParameter("--body cannot be combined with --raw-body", param_hint="--body")
    return read_document(path) if path else {}


def _choose_engine(name: str | None, master: str | None, workers: int | None) -> "Engine":
    from spark_exporter.running.engines import open_engine  # noqa: PLC0415

    return open_engine(name, master, workers, _warn)


def _print_plan(request: "ExportRequest", workers: int | None) -> None:
    from spark_exporter.planning.plan import open_source  # noqa: PLC0415
    from spark_exporter.running.engines.local import LocalEngine  # noqa: PLC0415
    from spark_exporter.running.export import make_plan  # noqa: PLC0415
    from spark_exporter.targets.open_target import find_known_end  # noqa: PLC0415

    known = find_known_end(request.target, request.spec, request.broker_name)
    plan = make_plan(request, open_source(request.source), LocalEngine(workers).workers, known)
    for each in plan.ranges:
        print(f"{each.segment.path}  {each.start:>20,} to {each.end:>20,}  {each.size_bytes / 1048576:10,.1f} MiB")
    said = "nothing exported yet" if known is None else f"exported up to offset {known:,}"
    print(
        f"{counted(len(plan.ranges), 'range')}, {plan.size_bytes / 1048576:,.1f} MiB to read, up to offset {plan.end:,}; {said}"
    )


def _print_summary(request: "ExportRequest", engine: "Engine", done: "Summary") -> None:
    rate = done.log_bytes / 1048576 / done.seconds if done.seconds else 0.0
    speed = f", {rate:,.0f} MiB/s" if rate >= 1 else ""  # of a small export, a speed tells nothing
    print(
        f"{request.target}: exported {done.rows:,} of {counted(done.records, 'record')} ({done.log_bytes:,} bytes, "
        f"offsets {done.start:,} to {done.end:,}) to {counted(done.files, 'file')} of {done.file_bytes:,} bytes, {counted(done.commits, 'commit')}, "
        f"{done.seconds:.1f} s{speed} ({engine.name})"
    )
    if done.damaged:
        print(f"{counted(done.damaged, 'damaged range')} of the log written to quarantine", file=sys.stderr)
    if done.unfit:
        print(
            f"{done.unfit:,} bodies do not match their schema; they are stored unparsed in the column body",
            file=sys.stderr,
        )
