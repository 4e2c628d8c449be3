"""The PATH of the `headrace store` commands: a store's root, where commitlog, consumequeue and index lie."""

from pathlib import Path

import click

from appliance.cli.broker_store import store_of
from appliance.errors import ApplianceError

slots_option = click.option(
    "--slots",
    type=click.IntRange(1),
    metavar="N",
    help="Hash slots of the IndexFiles (maxHashSlotNum), if not the default.",
)
entries_option = click.option(
    "--entries",
    type=click.IntRange(1),
    metavar="N",
    help="Entries of the IndexFiles (maxIndexNum), if not the default.",
)


broker_of_path_option = click.option(
    "--broker",
    metavar="NAME",
    help="Use this broker's store; PATH is then the data folder of an appliance with several brokers.",
)


def store_root(path: str, broker: str | None = None) -> Path:
    """The store's root; with `broker`, that broker's store below a data folder. Raises ApplianceError, which suggests where the store is."""
    root = Path(path)
    if not root.is_dir():
        raise ApplianceError(f"{path}: no such folder")
    if broker is not None:
        root = store_of(path, broker)
    if any((root / name).exists() for name in ("commitlog", "consumequeue", "index")):
        return root
    stores = [root / "store", *(folder / "store" for folder in sorted(root.iterdir()))]
    found = [str(store) for store in stores if (store / "commitlog").is_dir()]
    hint = f"; did you mean {' or '.join(found)}?" if found else ""
    raise ApplianceError(f"{root} is not a store: it contains no commitlog folder{hint}")


def index_sizes(slots: int | None, entries: int | None) -> dict[str, int]:
    """The sizes that were given, as keyword arguments; the store's own defaults fill in the rest."""
    return {name: size for name, size in (("slots", slots), ("entries", entries)) if size is not None}
