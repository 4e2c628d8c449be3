"""Merges small files: `headrace export compact`.

Compacts only days to which no more rows will be added: those before the day of the last exported record. Readers of the table see the same rows
before and after, and so does `verify`.
"""

import secrets
from collections.abc import Callable
from datetime import UTC, date, datetime

from spark_exporter.targets.open_target import Target
from spark_exporter.targets.owned_target import OwnedTarget
from spark_exporter.targets.sink import Compaction


def compact(target: Target, before: date | None = None, warn: Callable[[str], None] = lambda _note: None) -> Compaction:
    """Compact the days before `before`; None: the days before the one that the slowest broker's log has reached. Raises TargetBusy, TargetError.

    `warn` is called if requested days are skipped.
    """
    run = f"compact-{secrets.token_hex(4)}"
    with OwnedTarget(target.sink, target.ledger, run, "headrace export compact") as owned:
        last = owned.last()
        if last is None or not last.progress:
            return Compaction()
        reached = min(each.last_store_ms for each in last.progress.values())
        closed = datetime.fromtimestamp(reached / 1000, UTC).date()
        if before is not None and before > closed:
            warn(f"days from {closed} on are skipped: the export has only reached that day and may add rows")
        return target.sink.compact(owned, target.ledger, closed if before is None else min(before, closed))
