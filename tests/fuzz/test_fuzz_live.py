"""Mutated input on every socket of a running appliance: roles survive, memory is released, the log stays short."""

import os
import sys
import time
from pathlib import Path

import pytest

from support import sanitized
from support.appliance import Appliance
from support.fuzz import SLOWDOWN
from support.fuzz_live import Attack, Memory, Watch, hostile_batches, make_topic
from support.servers import wait_until

INPUTS_SHORT = 200_000
IS_LONG = int(os.environ.get("HEADRACE_FUZZ_INPUTS", "0")) > INPUTS_SHORT
SEED = int(os.environ.get("HEADRACE_FUZZ_SEED", "1"))
CONNECTIONS = 12_000 if IS_LONG else 80
WARM_UP = 40
MOST_GROWTH = 48 << 20
"""Topics and groups of the fuzz are kept, as those of clients are; allocators keep some more."""
MOST_LINES = 300
"""Faults of a kind are logged thirty times a minute, then counted."""
SETTINGS = {
    "mappedFileSizeCommitLog": str(16 << 20),
    "mappedFileSizeConsumeQueue": "60000",
    "autoCreateTopicEnable": "false",
}


@pytest.mark.slow
def test_all_roles_survive_mutated_input_on_every_socket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = dict(os.environ)
    if IS_LONG:
        assert sanitized.is_built(), "run `make sanitized` first"
        environment |= sanitized.environment() | {"PYTHONPATH": sanitized.site()}
    with Appliance(tmp_path / "data", settings=SETTINGS, environment=environment) as appliance:
        make_topic(appliance, "TopicTest")
        watch = Watch(appliance, SLOWDOWN if IS_LONG else 1)
        attack = Attack(appliance, SEED)
        try:
            for frame in hostile_batches():
                attack._send("broker", appliance.ports[1], [frame])
            attack.run(WARM_UP)
            before, lines = Memory.of(appliance), _lines(appliance)
            began = time.monotonic()
            for done in range(0, CONNECTIONS, 40):
                attack.run(40)
                assert not watch.findings, (watch.findings, _hexadecimal(attack))
                if IS_LONG:
                    with capsys.disabled():
                        sys.stdout.write(
                            f"fuzz: {attack.sent:,} inputs over sockets in {time.monotonic() - began:.0f} s, {done + 40} of {CONNECTIONS} connections\n"
                        )
            if not IS_LONG:  # the sanitizers do not release freed memory
                wait_until(lambda: _growth(appliance, before) < MOST_GROWTH, 20, f"memory is back: {before}")
            added = _lines(appliance) - lines
        finally:
            watch.stop()
        assert not watch.findings, (watch.findings, _hexadecimal(attack))
        assert watch.pings > 0
        assert added < MOST_LINES * (1 + (time.monotonic() - began) / 60), f"{added} lines were logged"
        raised = [line for line in _log(appliance).splitlines() if "Traceback" in line or "request failed" in line]
        assert not raised, raised


def _growth(appliance: Appliance, before: Memory) -> int:
    return max(Memory.of(appliance).growth_since(before).values())


def _log(appliance: Appliance) -> str:
    return appliance.log.read_text(errors="replace")


def _lines(appliance: Appliance) -> int:
    return _log(appliance).count("\n")


def _hexadecimal(attack: Attack) -> dict[str, list[str]]:
    return {name: [one.hex() for one in inputs] for name, inputs in attack.last.items()}
