"""Where the store of an appliance's broker is, as commands find it: from the appliance while it runs, else from the data folder."""

from pathlib import Path

from appliance.cli.supervisor_client import ask_supervisor, paths_of
from appliance.errors import ApplianceError


def store_of(data: str, broker: str | None) -> Path:
    """The store of a broker, or of the only one if `broker` is None. Raises ApplianceError."""
    paths = paths_of(data)
    only = Path(paths.broker().store)
    try:
        brokers = ask_supervisor(data, {"command": "status"}, timeout_s=5.0)["status"].get("brokers", {})
    except ApplianceError:
        folders = sorted(Path(paths.data).iterdir()) if not only.is_dir() and Path(paths.data).is_dir() else []
        stores = {folder.name: folder / "store" for folder in folders if (folder / "store" / "config").is_dir()}
    else:
        stores = {name: Path(one["store"]) for name, one in brokers.items()}
    if broker is None:
        if stores:
            raise ApplianceError(f"{paths.data} has several brokers; choose one with --broker: {', '.join(stores)}")
        return only
    if not stores:
        raise ApplianceError(f"{paths.data} does not have several brokers; omit --broker")
    if broker not in stores:
        raise ApplianceError(f"{paths.data} has no broker {broker}; existing brokers: {', '.join(stores)}")
    return stores[broker]
