"""`headrace filter list`."""

import json
from pathlib import Path

import click

from appliance.cli.filter_functions import folder_of
from appliance.cli.filter_table import function_lines
from appliance.cli.options import data_option
from appliance.cli.supervisor_client import paths_of
from store.filter.python.functions import read_report


@click.command("list", short_help="Say which functions there are and how they fare.")
@data_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def command(data: str, as_json: bool) -> None:
    """Say which filter functions an appliance has, and how each fares.

    STATE is "in use" (it has a process), "not asked" (no consumer has asked for it lately) or "out of use" (it failed three times within a
    minute). FAILURES are those of its process, and messages over which it failed. MEAN is the time over a message. A function's
    numbers begin anew with each `put` and `enable`. With --json: {NAME: {"calls", "messages", "wanted", "busy_ms", "failures",
    "failed_messages", "last_reason", "last_failure_ms", "out_of_use", "worker"}}.
    """
    folder = folder_of(data)
    report = read_report(Path(paths_of(data).filter_report))
    found = {}
    for name in folder.names():
        said = report.get(name, {})
        # What was said of another version says nothing of this one.
        found[name] = said if said.get("version") == folder.version(name) else {}
    if as_json:
        print(json.dumps(found, indent=2))
    elif found:
        print("\n".join(function_lines(found)))
    else:
        print("no filter functions; put one with: headrace filter put FILE")
