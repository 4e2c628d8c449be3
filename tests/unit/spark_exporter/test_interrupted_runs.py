"""A run that goes on where another one died cuts the rest as it likes: with other workers, of a log that has grown. Each row is there once all the same."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_exporter.planning.plan import open_source
from spark_exporter.running.engines.local import LocalEngine
from spark_exporter.running.export import Export
from spark_exporter.running.verify import verify
from spark_exporter.targets.ledger import Commit, Ledger
from spark_exporter.targets.open_target import open_target
from spark_exporter.writing.range_result import RangeResult
from support.exported import FORMATS, read, request, rows_of
from support.small_log import SmallLog


class DiedError(Exception):
    """What ends a run."""


class DyingEngine(LocalEngine):
    """Dies when one range has been handed over and another one written."""

    def write(self, *of: Any) -> Iterator[RangeResult]:
        results = super().write(*of)
        yield next(results)
        next(results)
        raise DiedError


@pytest.mark.parametrize("is_decided", [False, True], ids=["between-commits", "a-commit-decided"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_rows_are_complete_and_unique_with_other_workers_and_a_longer_log(
    table_format: str, is_decided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(int(is_decided))
    log, target = SmallLog(tmp_path / "store"), tmp_path / "target"
    finish = Ledger.finish

    def die(_self: Ledger, _commit: Commit) -> None:
        raise DiedError

    for workers in (2, 7):
        for _ in range(100):
            log.append(bytes(chance.randrange(700)))
        log.write()
        # A commit that is published but not finished, or ranges that are written but in no commit.
        monkeypatch.setattr(Ledger, "finish", die if is_decided else finish)
        asked = request(log.root, target, table_format, commit_every_s=0.0, least_range_bytes=2048)
        with pytest.raises(DiedError), Export(asked, DyingEngine(workers)) as run:
            run.run_once()
    monkeypatch.setattr(Ledger, "finish", finish)
    with Export(request(log.root, target, table_format, least_range_bytes=2048), LocalEngine(5)) as run:
        run.run_once()
    opened = open_target(str(target))
    assert verify(open_source(log.root), opened, "broker").differences == ()
    assert [row["commit_log_offset"] for row in rows_of(read(target, table_format))] == log.offsets
    ranges = [each for commit in opened.ledger.commits() for each in commit.ranges]
    assert [each.start for each in ranges[1:]] == [each.end for each in ranges[:-1]]
    assert (ranges[0].start, ranges[-1].end) == (0, log.end)
