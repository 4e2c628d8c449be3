"""Runs fuzz targets in child processes and reports the seed and the input of a finding.

    python -m support.fuzz run SEED FOLDER TARGET:FIRST:COUNT … [interpreted] [digest]     batches FIRST to FIRST + COUNT - 1
    python -m support.fuzz input SEED TARGET BATCH INDEX                                   an input, in hexadecimal digits

A batch has `BATCH` inputs and depends on nothing but the seed and its number. A process that dies, or makes no progress, has left the place of
the input in hand in a shared file. `digest`: a line for each batch with a hash of what came of its inputs.
"""

# ruff: noqa: T201  (a program; it prints)

import hashlib
import importlib
import mmap
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

from support import sanitized
from support.interpreted import ROOT, sources_only

_SHOWS_OUTCOMES = "HEADRACE_FUZZ_OUTCOMES"
BATCH = 500
SLOWEST_S = 1.0
"""An input may keep a process busy no longer: of CPU, so that a loaded machine is no finding."""
SLOWDOWN = 5
"""How much longer with sanitizers."""
STUCK_S = 60
GROWTH_BYTES = 96 << 20
"""So much more memory than after the first tenth of its batches a target may use at its end: allocators keep some."""
FEW_BATCHES = 20
"""So few tell nothing about memory."""
FINDING = 3


class Work(NamedTuple):
    """Batches of one target."""

    target: str
    first: int
    batches: int

    def __str__(self) -> str:
        return f"{self.target}:{self.first}:{self.batches}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the output of `str`."""
        target, first, count = text.split(":")
        return cls(target, int(first), int(count))


def make_batch(target: Any, seed: int, number: int) -> list[bytes]:
    """The inputs of a batch."""
    chance = random.Random(f"{seed}:{number}")
    return [target.make(chance) for _ in range(BATCH)]


class _Finding(Exception):  # noqa: N818  (never leaves this module)
    """A finding."""


def _run(work: Work, number_of_work: int, seed: int, folder: Path, place: memoryview, digest: bool) -> None:
    """The child: runs batches. Raises _Finding."""
    unraisable: list[str] = []
    sys.unraisablehook = lambda raised: unraisable.append(f"{raised.exc_value!r} in {raised.object!r}")
    target = importlib.import_module("support.fuzz_targets").TARGETS[work.target](folder)
    settled = 0
    slowest_s = SLOWEST_S * (SLOWDOWN if sanitized.is_on() else 1)
    for number in range(work.first, work.first + work.batches):
        inputs = make_batch(target, seed, number)
        place[0], place[1], place[2] = number_of_work, number, -1
        target.begin()
        outcomes = hashlib.sha256()
        for index, data in enumerate(inputs):
            place[2] = index
            began = time.process_time()
            try:
                outcome = target.run(data)
                took = time.process_time() - began
                assert took < slowest_s, f"it took {took:.1f} s of CPU"
                assert not unraisable, f"ignored exceptions: {unraisable}"
            except Exception:  # noqa: BLE001  (whatever it is, it is a finding)
                raise _Finding(_described(work.target, seed, number, index, data) + traceback.format_exc()) from None
            if digest:
                outcomes.update(repr(outcome).encode(errors="replace"))
                if _SHOWS_OUTCOMES in os.environ:
                    print(f"{work.target} {number}:{index} {outcome!r}")
        if digest:
            print(f"{work.target} {number} {outcomes.hexdigest()}")
        if number - work.first == work.batches // 10:
            settled = psutil.Process().memory_info().rss
    grown = psutil.Process().memory_info().rss - settled
    target.close()
    if work.batches >= FEW_BATCHES and grown > GROWTH_BYTES:
        raise _Finding(f"memory grew by {grown >> 20} MiB: {work} seed={seed}")


def _described(target: str, seed: int, number: int, index: int, data: bytes) -> str:
    return f"target={target} seed={seed} batch={number} index={index}\ninput={data.hex()}\n"


class Run:
    """Work done by a child process."""

    def __init__(
        self,
        seed: int,
        work: Sequence[Work],
        *,
        interpreted: bool = False,
        digest: bool = False,
        sanitize: bool = False,
    ) -> None:
        self.seed, self.work = seed, list(work)
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-fuzz-")
        self._work = Path(self._folder.name) / "work"
        self._work.mkdir()
        self._out = open(Path(self._folder.name) / "out", "w+b")  # noqa: SIM115  (closed with the run)
        self._environment = {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
            "PATH": os.environ["PATH"],
            "PYTHONHASHSEED": "0",
        }
        self._environment |= {key: value for key, value in os.environ.items() if key == _SHOWS_OUTCOMES}
        command = [sys.executable, "-m", "support.fuzz", "run", str(seed), str(self._work), *map(str, work)]
        command += ["interpreted"] * interpreted + ["digest"] * digest
        self._child = subprocess.Popen(
            command, stdout=self._out, stderr=subprocess.STDOUT, cwd=ROOT,
            env=self._environment | (sanitized.environment() if sanitize else {}),
        )  # fmt: skip
        self._last = (-1, -1, -1)
        self._since = time.monotonic()

    def place(self) -> tuple[int, int, int]:
        """Index of the work, batch and index of the current input; -1 before the first."""
        try:
            numbers = memoryview((self._work / "place").read_bytes()).cast("q").tolist()
        except FileNotFoundError:
            return -1, -1, -1
        return (numbers[0], numbers[1], numbers[2]) if numbers else (-1, -1, -1)

    def has_ended(self) -> bool:
        """Whether it has ended. Kills a child that makes no progress."""
        if self._child.poll() is not None:
            return True
        place = self.place()
        if place != self._last:
            self._last, self._since = place, time.monotonic()
        elif time.monotonic() - self._since > STUCK_S:
            self._child.kill()
            self._child.wait()
        return self._child.poll() is not None

    def finish(self) -> str:
        """Returns the output of an ended child. Raises AssertionError with the finding, if any."""
        while not self.has_ended():
            time.sleep(0.05)
        code = self._child.returncode
        self._out.seek(0)
        out = self._out.read().decode(errors="replace")
        self._out.close()
        number, batch, index = self.place()
        self._folder.cleanup()
        assert code in (0, FINDING), self._death(code, out, number, batch, index)
        assert code == 0, out
        return out

    def _death(self, code: int, out: str, number: int, batch: int, index: int) -> str:
        if number < 0 or index < 0:
            return f"{self.work} seed={self.seed} ended with {code} before an input was run:\n{out[-8000:]}"
        target = self.work[number].target
        command = [sys.executable, "-m", "support.fuzz", "input", str(self.seed), target, str(batch), str(index)]
        data = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, env=self._environment).stdout
        described = _described(target, self.seed, batch, index, bytes.fromhex(data.decode()))
        return f"ended with {code} (-9: stuck for {STUCK_S} s)\n{described}{out[-8000:]}"

    def kill(self) -> None:
        """Kills it."""
        self._child.kill()
        self._child.wait()


def _main(arguments: list[str]) -> int:
    what, seed = arguments[0], int(arguments[1])
    if what == "input":
        target, batch, index = arguments[2], int(arguments[3]), int(arguments[4])
        with tempfile.TemporaryDirectory() as empty:
            made = make_batch(importlib.import_module("support.fuzz_targets").TARGETS[target](Path(empty)), seed, batch)
        print(made[index].hex())
        return 0
    folder, options = Path(arguments[2]), arguments[3:]
    if "interpreted" in options:
        sources_only()
    sanitized.install()
    with open(folder / "place", "w+b") as file:
        file.write(struct.pack("=3q", -1, -1, -1))
        file.flush()
        place = memoryview(mmap.mmap(file.fileno(), 24)).cast("q")
    for number, work in enumerate(Work.parse(one) for one in options if ":" in one):
        own = folder / str(number)
        own.mkdir()
        try:
            _run(work, number, seed, own, place, "digest" in options)
        except _Finding as finding:
            print(finding, flush=True)
            return FINDING
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
