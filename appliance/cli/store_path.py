"""The PATH of the `headrace store` commands: a store's root, where commitlog, consumequeue and index lie."""

from pathlib import Path

import click

from appliance.errors import ApplianceError

slots_option = click.option(
    "--slots",
    type=click.IntRange(1),
    metavar="N",
    help="Hash slots of its IndexFiles (maxHashSlotNum), if not the default.",
)
entries_option = click.option(
    "--entries",
    type=click.IntRange(1),
    metavar="N",
    help="Entries of its IndexFiles (maxIndexNum), if not the default.",
)


def store_root(path: str) -> Path:
    """The store's root, or an error that says where it might be. Raises ApplianceError."""
    root = Path(path)
    if not root.is_dir():
        raise ApplianceError(f"{path}: no such folder")
    if any((root / name).exists() for name in ("commitlog", "consumequeue", "index")):
        return root
    hint = f"; did you mean {root / 'store'}?" if (root / "store" / "commitlog").is_dir() else ""
    raise ApplianceError(f"{path} is not a store: it has no folder commitlog{hint}")


def index_sizes(slots: int | None, entries: int | None) -> dict[str, int]:
    """The sizes that were given, as keyword arguments; the store's own defaults fill in the rest."""
    return {name: size for name, size in (("slots", slots), ("entries", entries)) if size is not None}
