"""`headrace store verify`."""

import click

from appliance import exit_code
from appliance.cli.counted import counted
from appliance.cli.progress import ProgressLine
from appliance.cli.store_path import broker_of_path_option, entries_option, index_sizes, slots_option, store_root


@click.command("verify", short_help="Verify a store and print all violations.")
@click.argument("path")
@broker_of_path_option
@slots_option
@entries_option
def command(path: str, broker: str | None, slots: int | None, entries: int | None) -> int:
    """Read the whole store at PATH, check every invariant of its formats, and print each violation with its location.

    PATH is RocketMQ's storePathRootDir (DIR/store of an appliance). The store may belong to Headrace or RocketMQ, and may be in
    use. It is not modified. The store of a running appliance is checked up to the offsets that the appliance has published.

    Exit codes: 0 the store is OK; 1 problems were found.
    """
    root = store_root(path, broker)
    # Slow to import, and of no use to --help.
    from store.inspect.finding import Finding  # noqa: PLC0415
    from store.inspect.verify import verify  # noqa: PLC0415

    findings = 0
    read_bytes: dict[str, int] = {}
    with ProgressLine() as progress:
        for said in verify(root, **index_sizes(slots, entries)):
            if isinstance(said, Finding):
                findings += said.count
                progress.clear()
                print(said)
            else:
                read_bytes[said.part] = said.done_bytes
                progress.show(said.part, said.done_bytes, said.total_bytes)
    total = sum(read_bytes.values())
    print(f"{path}: " + (counted(findings, "problem") if findings else "OK") + f", {total:,} bytes verified")
    return exit_code.FAILED if findings else exit_code.CLEAN
