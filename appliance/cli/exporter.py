"""Shared by the `headrace export` commands: errors of the exporter as one line, and how far a running appliance has flushed its log."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from appliance.errors import ApplianceError
from ipc.errors import IpcError
from ipc.instance import Instance

FLUSHED_WITHIN_S: Final = 15.0
"""# limit: brokers flush what is left every ten seconds (flushCommitLogThoroughInterval)."""


@contextmanager
def exporter_errors() -> Iterator[None]:
    """Turns the exporter's errors, and a missing package, into an ApplianceError."""
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
    """A function that asks the running appliance how far its log is durable; None if none runs on this store."""

    def read() -> int | None:
        offsets = _offsets_of(source)
        return None if offsets is None else offsets[0]

    return read


def wait_until_flushed(source: Path) -> int:
    """Wait until what a running appliance has written by now is durable, so that an export has what was sent before it began.

    A broker leaves little for up to ten seconds. The answer: how many bytes are still missing after FLUSHED_WITHIN_S.
    """
    offsets = _offsets_of(source)
    if offsets is None:
        return 0
    wrote = offsets[1]
    deadline = time.monotonic() + FLUSHED_WITHIN_S
    while offsets is not None and offsets[0] < wrote and time.monotonic() < deadline:
        time.sleep(0.05)
        offsets = _offsets_of(source)
    return 0 if offsets is None else max(0, wrote - offsets[0])


def _offsets_of(source: Path) -> tuple[int, int] | None:
    """The flushed and the written offset of a running appliance."""
    for store in (source, source / "store", source.parent):
        if os.path.isdir(store / "commitlog"):  # False also without permission
            try:
                instance = Instance.open(store)
            except IpcError:
                continue
            try:
                return instance.control.flushed_offset, instance.control.wrote_offset
            finally:
                instance.close()
    return None


def _not_installed(error: ImportError) -> ApplianceError:
    return ApplianceError(
        f"package {error.name} is not installed: install the package headrace-exporter (Debian, RPM), or run in Headrace's virtual "
        "environment: pip install 'headrace-appliance[export-local]' (in a clone: make install-export)"
    )
