"""Mutated frames, bodies, records, entries and expressions, given to what reads them, in child processes.

`make test` runs a fixed short form with the modules as they are; `make test-fuzz` the long one (HEADRACE_FUZZ_INPUTS, HEADRACE_FUZZ_SEED) with
the modules that have sanitizers in them. A finding is told with its seed, its batch, and the input.
"""

import os
import sys
import time

import pytest

from support import sanitized
from support.fuzz import BATCH, Run, Work
from support.fuzz_targets import IN_BOTH_FORMS, TARGETS

SHORT_INPUTS = 200_000
INPUTS = int(os.environ.get("HEADRACE_FUZZ_INPUTS", SHORT_INPUTS))
SEED = int(os.environ.get("HEADRACE_FUZZ_SEED", "1"))
IS_LONG = INPUTS > SHORT_INPUTS
CHUNK_BATCHES = 200
"""So many batches has a child of the long form at most."""
CHILDREN = 2


def plan(inputs: int) -> list[Work]:
    """All targets' work: at least so many inputs."""
    weights = sum(target.weight for target in TARGETS.values())
    return [Work(name, 0, -(-inputs * target.weight // (weights * BATCH))) for name, target in TARGETS.items()]


def chunks(work: list[Work]) -> list[Work]:
    """The same, cut so that no child runs long; the targets by turns."""
    cut = [
        Work(one.target, first, min(CHUNK_BATCHES, one.batches - first))
        for one in work
        for first in range(0, one.batches, CHUNK_BATCHES)
    ]
    return sorted(cut, key=lambda one: one.first)


@pytest.mark.slow
def test_no_mutated_input_does_more_than_be_refused(capsys: pytest.CaptureFixture[str]) -> None:
    if not IS_LONG:
        Run(SEED, plan(INPUTS)).finish()
        return
    assert sanitized.is_built(), "run `make sanitized` first"
    waiting = chunks(plan(INPUTS))
    total = sum(one.batches for one in waiting) * BATCH
    running: list[Run] = []
    done, began = 0, time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < CHILDREN:
                running.append(Run(SEED, [waiting.pop(0)], sanitize=True))
            for run in [one for one in running if one.has_ended()]:
                running.remove(run)
                run.finish()
                done += sum(one.batches for one in run.work) * BATCH
                with capsys.disabled():
                    sys.stdout.write(
                        f"fuzz: {done:,} of {total:,} inputs in {time.monotonic() - began:.0f} s; {run.work[0]}\n"
                    )
            time.sleep(0.02)
    finally:
        for run in running:
            run.kill()


@pytest.mark.slow
def test_compiled_and_interpreted_modules_make_the_same_of_mutated_input() -> None:
    batches = 2 if not IS_LONG else 20
    work = [Work(name, 1_000_000, batches) for name in IN_BOTH_FORMS]
    runs = [Run(SEED, work, digest=True), Run(SEED, work, digest=True, interpreted=True)]
    compiled, interpreted = (run.finish().splitlines() for run in runs)
    assert len(compiled) == len(work) * batches
    assert compiled == interpreted
