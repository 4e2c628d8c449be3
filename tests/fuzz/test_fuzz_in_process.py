"""Feeds mutated frames, bodies, records, entries and expressions to their parsers in child processes.

`make test` runs a short fixed form with the ordinary modules; `make test-fuzz` runs the long one (HEADRACE_FUZZ_INPUTS,
HEADRACE_FUZZ_SEED) with sanitized modules. A finding is printed with its seed, batch and input.
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
    """The batches of all targets: at least this many inputs."""
    weights = sum(target.weight for target in TARGETS.values())
    return [Work(name, 0, -(-inputs * target.weight // (weights * BATCH))) for name, target in TARGETS.items()]


def chunks(work: list[Work]) -> list[Work]:
    """The same, split so that no child runs long, alternating between targets."""
    cut = [
        Work(one.target, first, min(CHUNK_BATCHES, one.batches - first))
        for one in work
        for first in range(0, one.batches, CHUNK_BATCHES)
    ]
    return sorted(cut, key=lambda one: one.first)


@pytest.mark.slow
def test_mutated_input_never_fails_except_with_a_declared_error(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_compiled_and_interpreted_modules_agree_on_mutated_input() -> None:
    batches = 2 if not IS_LONG else 20
    work = [Work(name, 1_000_000, batches) for name in IN_BOTH_FORMS]
    runs = [Run(SEED, work, digest=True), Run(SEED, work, digest=True, interpreted=True)]
    compiled, interpreted = (run.finish().splitlines() for run in runs)
    assert len(compiled) == len(work) * batches
    assert compiled == interpreted
