"""`headrace export status`."""

import json
import time
from typing import TYPE_CHECKING

import click

from appliance.cli.counted import counted
from appliance.cli.exporter import exporter_errors

if TYPE_CHECKING:  # slow to import, and of no use to --help
    from spark_exporter.running.status import TargetStatus


@click.command("status", short_help="Show a target's progress.")
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(target: str, as_json: bool) -> None:
    """Show the progress of TARGET: the exported offset of each broker, rows, files, and any running export."""
    with exporter_errors():
        from spark_exporter.running.status import read_status  # noqa: PLC0415
        from spark_exporter.targets.open_target import open_target  # noqa: PLC0415

        status = read_status(open_target(target))
        print(json.dumps(_as_json(status), indent=2) if as_json else "\n".join(_lines(target, status)))


def _as_json(status: "TargetStatus") -> dict[str, object]:
    return {
        "spec": status.spec.as_json(),
        "progress": {
            name: {"first": each.first, "end": each.end, "last_store_ms": each.last_store_ms}
            for name, each in status.progress.items()
        },
        "commits": status.commits, "rows": status.rows, "files": status.files, "file_bytes": status.file_bytes,
        "damaged": status.damaged, "unfit": status.unfit, "running": json.loads(status.running) if status.running else None,
        "is_pending": status.is_pending,
    }  # fmt: skip


def _lines(target: str, status: "TargetStatus") -> list[str]:
    lines = [
        f"{target}: {status.spec.format}, schema version {status.spec.schema_version}, {counted(status.commits, 'commit')}"
    ]
    lines.append(
        f"{counted(status.rows, 'row')}, {counted(status.files, 'file')} of {status.file_bytes:,} bytes, {counted(status.damaged, 'damaged range')}"
    )
    if status.spec.body is not None:
        lines.append(f"typed bodies; {status.unfit:,} do not match their schema")
    for name, each in sorted(status.progress.items()):
        last = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.last_store_ms / 1000))
        lines.append(f"{name}: offsets {each.first:,} to {each.end:,}, last message stored at {last}")
    if status.running:
        owner = json.loads(status.running)
        lines.append(f"running: {owner['command']}, pid {owner['pid']} on {owner['host']}")
    if status.is_pending:
        lines.append("a run crashed while publishing a commit; the next run completes it")
    return lines
