"""Opens an existing target with the options that it was created with."""

from dataclasses import dataclass
from pathlib import Path

from spark_exporter.errors import TargetError
from spark_exporter.storage.location import Location
from spark_exporter.targets.ledger import Ledger, TargetSpec
from spark_exporter.targets.open_sink import open_sink
from spark_exporter.targets.reach import check_reachable
from spark_exporter.targets.sink import Sink


@dataclass(frozen=True, slots=True)
class Target:
    """An open target and its specification."""

    spec: TargetSpec
    sink: Sink
    ledger: Ledger


def open_target(target: str) -> Target:
    """Open the target of an earlier export. Raises TargetError if there is none."""
    found = find_target(target)
    if found is None:
        raise TargetError(f"{target} is not an export target: nothing was exported there")
    return found


def find_target(target: str) -> Target | None:
    """Open the target of an earlier export; None if there is none. Creates nothing."""
    check_reachable(target)
    if "#" in target:
        return _find_in_catalog(target)
    ledger = Ledger(Location(target))
    spec = ledger.find_spec()
    if spec is None:
        return None
    sink = open_sink(spec.format, target)
    sink.open(spec)
    sink.bodies = ledger.read_bodies(spec)
    return Target(spec, sink, ledger)


def _find_in_catalog(target: str) -> Target | None:
    from spark_exporter.targets.iceberg import IcebergSink  # noqa: PLC0415  needs its package

    file = target.partition("#")[0].removeprefix("sqlite:///").partition("?")[0]
    if target.startswith("sqlite:///") and not Path(file).exists():
        return None  # connecting to such a catalog would create it
    sink = IcebergSink(target)
    work = sink.find_work()
    if work is None:
        return None
    ledger = Ledger(work)
    spec = ledger.find_spec()
    if spec is None:
        return None
    sink.open(spec)
    sink.bodies = ledger.read_bodies(spec)
    return Target(spec, sink, ledger)


def find_known_end(target: str, spec: TargetSpec, broker_name: str) -> int | None:
    """How far a broker's log is in a target; None if the target does not exist yet. Raises TargetMismatch if it has another specification. Creates nothing."""
    found = find_target(target)
    if found is None:
        return None
    found.ledger.check_spec(spec)
    said = found.sink.find_end(broker_name)
    last = found.ledger.last()
    known = last.progress.get(broker_name) if last else None
    return said if said is not None else known.end if known else None
