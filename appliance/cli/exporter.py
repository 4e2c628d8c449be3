"""What the `headrace export` commands share: the exporter's errors as ours, and how far a live store of ours is flushed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.errors import ApplianceError
from ipc.errors import IpcError
from ipc.instance import Instance


@contextmanager
def exporter_errors() -> Iterator[None]:
    """The exporter's errors are one clear line, as ours are. So is that it is not installed."""
    try:
        from spark_exporter.errors import ExportError  # noqa: PLC0415  slow to import, and perhaps not there
    except ImportError as error:
        raise _not_installed(error) from None
    try:
        yield
    except ExportError as error:
        raise ApplianceError(str(error)) from None
    except ImportError as error:
        raise _not_installed(error) from None


def flushed_offset_of(source: Path) -> Callable[[], int | None]:
    """Asks a running appliance how far its log is durable. The answer is None where none runs on this store."""
    stores = [path for path in (source, source / "store", source.parent) if (path / "commitlog").is_dir()]

    def read() -> int | None:
        for store in stores:
            try:
                instance = Instance.open(store)
            except IpcError:
                continue
            try:
                return instance.control.flushed_offset
            finally:
                instance.close()
        return None

    return read


def _not_installed(error: ImportError) -> ApplianceError:
    return ApplianceError(
        f"the exporter needs {error.name}: make install-export, or pip install 'headrace-appliance[export]'"
    )
