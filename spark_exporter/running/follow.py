"""Exports a live log again and again: what `headrace export --follow` does.

Each round takes what the broker has flushed since the last one, as a commit of its own. Small rounds make small files, for `compact` to put together.
"""

import time
from collections.abc import Callable

from spark_exporter.running.export import Export, Summary


def follow(
    export: Export,
    every_s: float,
    told: Callable[[Summary], None],
    is_wanted: Callable[[], bool] = lambda: True,
    wait: Callable[[float], None] = time.sleep,
) -> Summary:
    """Run rounds, one begun `every_s` seconds after the other, as long as it is wanted. `told` hears of each; the answer is their sum."""
    total: Summary | None = None
    while is_wanted():
        began = time.monotonic()
        done = export.run_once()
        told(done)
        total = total or Summary(done.start)
        total.add(done)
        if is_wanted():
            wait(max(0.0, every_s - (time.monotonic() - began)))
    return total or Summary()
