"""`headrace store dump`."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from appliance.cli.store_path import broker_of_path_option, entries_option, index_sizes, slots_option, store_root
from appliance.errors import ApplianceError


@click.command("dump", short_help="Print the contents of a store.")
@click.argument("path")
@broker_of_path_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--from", "from_offset", type=click.IntRange(0), metavar="OFFSET", help="Start at this physical offset.")
@click.option("--queue", metavar="TOPIC:ID", help="Print the entries of this ConsumeQueue instead of the records.")
@click.option(
    "--index",
    "of_index",
    is_flag=True,
    help="Print headers, slots and entries of the IndexFiles instead of the records.",
)
@click.option("--all", "of_all", is_flag=True, help="Print everything: records, queues, IndexFiles, checkpoint.")
@slots_option
@entries_option
def command(
    path: str,
    broker: str | None,
    as_json: bool,
    from_offset: int | None,
    queue: str | None,
    of_index: bool,
    of_all: bool,
    slots: int | None,
    entries: int | None,
) -> None:
    """Print every record of the CommitLog in the store at PATH, or the parts selected by the options.

    PATH is RocketMQ's storePathRootDir (DIR/store of an appliance). The store may belong to Headrace or RocketMQ, and may be in
    use. It is not modified. With --json, keys have RocketMQ's names; bodies of up to 256 bytes are Base64
    ("body"), longer ones a SHA-256 digest ("bodySha256").
    """
    chosen = [
        flag
        for flag, is_given in (("--queue", queue is not None), ("--index", of_index), ("--all", of_all))
        if is_given
    ]
    if len(chosen) + (from_offset is not None) > 1:
        raise click.UsageError(
            f"{' and '.join([*chosen, *(['--from'] if from_offset is not None else [])])} are mutually exclusive"
        )
    root = store_root(path, broker)
    # Slow to import, and of no use to --help.
    from store.inspect import dump  # noqa: PLC0415

    if queue is not None:
        topic, queue_id = _topic_and_id(queue)
        if not (root / "consumequeue" / topic / str(queue_id)).is_dir():
            raise ApplianceError(
                f"{root} has no ConsumeQueue of topic {topic}, queue {queue_id}; check topic and queue id"
            )
        lines = dump.dump_queue(root, topic, queue_id)
    elif of_index:
        lines = dump.dump_index(root, **index_sizes(slots, entries))
    elif of_all:
        lines = dump.dump_all(root, **index_sizes(slots, entries))
    else:
        lines = dump.dump_records(root, from_offset or 0)
    _print_all(lines, as_json=as_json)


def _topic_and_id(queue: str) -> tuple[str, int]:
    topic, _, queue_id = queue.rpartition(":")
    if not topic or not queue_id.isdecimal():
        raise click.BadParameter(f"{queue}: expected TOPIC:ID", param_hint="--queue")
    return topic, int(queue_id)


def _print_all(lines: Iterator[dict[str, Any]], *, as_json: bool) -> None:
    write = sys.stdout.write
    for line in lines:
        if as_json:
            write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
        else:
            write(_as_text(line) + "\n")


def _as_text(line: dict[str, Any]) -> str:
    fields = dict(line)
    kind = fields.pop("kind")
    # The same facts twice are for programs; what is left is for people.
    fields.pop("propertiesString", None)
    return f"{kind:<10} " + " ".join(f"{name}={_value(value)}" for name, value in fields.items())


def _value(value: object) -> str:
    if isinstance(value, str) and value and value.isprintable() and " " not in value:
        return value
    return json.dumps(value, ensure_ascii=False)
