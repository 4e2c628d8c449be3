"""The status of a target: `headrace export status`."""

from dataclasses import dataclass

from spark_exporter.targets.ledger import Progress, TargetSpec
from spark_exporter.targets.open_target import Target
from spark_exporter.targets.target_lock import read_owner


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """The status that the target has stored.

    `progress` by broker name; `running`: the current owner's description of itself; `is_pending`: a run crashed while publishing a commit, which the
    next one will complete.
    """

    spec: TargetSpec
    progress: dict[str, Progress]
    commits: int
    rows: int
    files: int
    file_bytes: int
    damaged: int
    unfit: int
    running: str | None
    is_pending: bool


def read_status(target: Target) -> TargetStatus:
    """Read the status of a target. Changes nothing."""
    progress: dict[str, Progress] = {}
    commits = rows = damaged = unfit = 0
    for commit in target.ledger.commits():
        commits += 1
        progress = commit.progress
        rows += sum(each.rows for each in commit.ranges)
        damaged += sum(each.damaged for each in commit.ranges)
        unfit += sum(each.unfit for each in commit.ranges)
    sizes = target.sink.file_sizes(target.ledger)
    return TargetStatus(
        target.spec,
        progress,
        commits,
        rows,
        len(sizes),
        sum(sizes),
        damaged,
        unfit,
        read_owner(target.sink.work),
        target.ledger.read_pending() is not None,
    )
