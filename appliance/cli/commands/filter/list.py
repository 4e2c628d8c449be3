"""`headrace filter list`."""

import json

import click

from appliance.cli.filter_functions import folder_of
from appliance.cli.filter_table import function_lines
from appliance.cli.options import broker_option, data_option
from store.filter.python.functions import REPORT, read_report


@click.command("list", short_help="List functions and their statistics.")
@data_option
@broker_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(data: str, broker: str | None, as_json: bool) -> None:
    """List the filter functions of an appliance and their statistics.

    STATE is "in use" (it has a process), "idle" (no consumer has used it recently) or "disabled" (it failed three times within
    a minute). FAILURES counts failures of its process, and messages on which it failed. MEAN is the mean time per message. `put`
    and `enable` reset a function's statistics. With --json: {NAME: {"calls", "messages", "matched", "busy_ms", "failures",
    "failed_messages", "last_reason", "last_failure_ms", "disabled_reason", "worker"}}. "disabled_reason" is empty unless the function is
    disabled.
    """
    folder = folder_of(data, broker)
    report = read_report(folder.path.parent / REPORT)
    found = {}
    for name in folder.names():
        said = report.get(name, {})
        # A report about another version does not apply.
        found[name] = said if said.get("version") == folder.version(name) else {}
    if as_json:
        print(json.dumps(found, indent=2))
    elif found:
        print("\n".join(function_lines(found)))
    else:
        print("no filter functions; install one with: headrace filter put FILE")
