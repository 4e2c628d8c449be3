"""`headrace export verify`."""

from functools import partial
from pathlib import Path

import click

from appliance import exit_code
from appliance.cli.counted import counted
from appliance.cli.exporter import exporter_errors
from appliance.cli.progress import ProgressLine


@click.command("verify", short_help="Compare a target with its log.")
@click.argument("source")
@click.argument("target")
@click.option(
    "--broker",
    "broker_name",
    metavar="NAME",
    default="broker",
    show_default=True,
    help="The name under which SOURCE was exported.",
)
def command(source: str, target: str, broker_name: str) -> int:
    """Decode the log at SOURCE again, read TARGET as a normal reader does, and compare counts and checksums of each range.

    Prints one line for each difference and each orphaned file (a file that belongs to no commit). Ranges that are no longer in
    the log are only counted.

    Exit codes: 0 TARGET matches; 1 it differs or has orphaned files.
    """
    with exporter_errors(), ProgressLine() as line:
        from spark_exporter.planning.plan import open_source  # noqa: PLC0415
        from spark_exporter.running.verify import verify  # noqa: PLC0415
        from spark_exporter.targets.open_target import open_target  # noqa: PLC0415

        found = verify(open_source(Path(source)), open_target(target), broker_name, partial(line.show, "log"))
        line.clear()
        for difference in found.differences:
            print(f"{difference.range.start:,} to {difference.range.end:,}: {difference.said}")
        for name in found.strays:
            print(f"{name}: the file belongs to no commit, but readers of the folder will see its rows")
        wrong = [counted(len(found.differences), "difference")] if found.differences else []
        wrong += [counted(len(found.strays), "orphaned file")] if found.strays else []
        said = ", ".join(wrong) or "OK"
        unread = f", no longer in the log: {counted(found.unread, 'range')}" if found.unread else ""
        print(f"{target}: {said}, {counted(found.ranges, 'range')}, {counted(found.rows, 'row')} compared{unread}")
        return exit_code.FAILED if wrong else exit_code.CLEAN
