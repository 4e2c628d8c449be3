"""Puts small files together: what `headrace export compact` does.

Only days are touched of which no more rows are to come: those before the day of the last exported record. What readers of the table see stays
the same, and so does what `verify` says.
"""

import secrets
from datetime import UTC, date, datetime

from spark_exporter.open_target import Target
from spark_exporter.sinks.sink import Compaction
from spark_exporter.target_lock import TargetLock


def compact(target: Target, before: date | None = None) -> Compaction:
    """Compact the days before one; None: before the day that the slowest broker's log has reached. Raises TargetBusy, TargetError."""
    run = f"compact-{secrets.token_hex(4)}"
    with TargetLock(target.sink.work, run, "headrace export compact"):
        pending = target.ledger.read_pending()
        if pending is not None:
            target.sink.publish(pending, target.ledger.staging(pending.run))
            target.ledger.finish(pending)
        target.ledger.clear_staging()
        last = target.ledger.last()
        if last is None or not last.progress:
            return Compaction()
        reached = min(each.last_store_ms for each in last.progress.values())
        closed = datetime.fromtimestamp(reached / 1000, UTC).date()
        done = target.sink.compact(target.ledger, closed if before is None else min(before, closed), run)
        target.ledger.clear_staging()
        return done
