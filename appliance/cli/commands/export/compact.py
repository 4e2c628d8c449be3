"""`headrace export compact`."""

import sys
from datetime import date

import click

from appliance.cli.counted import counted
from appliance.cli.exporter import exporter_errors
from appliance.cli.interruptible import interruptible


@click.command("compact", short_help="Merge the small files of a target.")
@click.argument("target")
@click.option("--before", metavar="DATE", help="Merge only files of days before this one (UTC).")
def command(target: str, before: str | None) -> None:
    """Merge the small files of TARGET, one day at a time. Days that may still receive rows are skipped."""
    try:
        day = None if before is None else date.fromisoformat(before)
    except ValueError:
        raise click.BadParameter(f"{before}: expected YYYY-MM-DD", param_hint="--before") from None
    with exporter_errors():
        from spark_exporter.running.compact import compact  # noqa: PLC0415
        from spark_exporter.targets.open_target import open_target  # noqa: PLC0415

        with interruptible():
            done = compact(
                open_target(target), day, lambda note: print(f"headrace: {note}", file=sys.stderr, flush=True)
            )
        print(
            f"{target}: {counted(done.partitions, 'partition')}, {counted(done.files_before, 'file')} merged into {done.files_after:,}"
        )
