"""Reads the golden data in `tests/golden`: `unpack` a store, its `expected` lines, the `frames` of a wire scenario.

`tests/golden/README.md` describes the lines. Nothing here decodes a frame or a record: that is left to the tests.
"""

import base64
import json
import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def stores() -> list[str]:
    """Names of the intact stores (without their damaged variants)."""
    return sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "stores").glob("*.tar.xz"))


def variants() -> list[str]:
    """Names of the damaged variants of stores."""
    return sorted(path.stem for path in (GOLDEN / "stores").glob("*.json"))


def scenarios() -> list[str]:
    """Names of the wire scenarios whose lines are frames (all but `ha`, which is raw bytes)."""
    return sorted(path.stem for path in (GOLDEN / "wire").glob("*.jsonl") if path.stem != "ha")


def unpack(name: str, target: Path) -> Path:
    """Unpacks store `name` (or a damaged variant) under `target` and returns its root (the storePathRootDir).

    Files keep their modification times, which searching by time uses.
    """
    variant = GOLDEN / "stores" / f"{name}.json"
    damaged: dict[str, Any] = json.loads(variant.read_text()) if variant.exists() else {"base": name, "steps": []}
    with tarfile.open(GOLDEN / "stores" / f"{damaged['base']}.tar.xz") as tar:
        # Python 3.11.2 has no filters yet; 3.12 and later require one.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(target)  # noqa: S202  (archives of our own)
    store = target / str(damaged["base"])
    damage(store, damaged["steps"])
    return store


def damage(store: Path, steps: list[dict[str, Any]]) -> None:
    """Applies a variant's file: deletes a file, or writes or zeroes bytes in place."""
    for step in steps:
        if "delete" in step:
            (store / step["delete"]).unlink()
            continue
        data = bytes(step["length"]) if "zero" in step else bytes.fromhex(step["hex"])
        with (store / (step.get("zero") or step["write"])).open("r+b") as file:
            file.seek(step["at"])
            file.write(data)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a .jsonl or .jsonl.xz file."""
    data = path.read_bytes()
    text = lzma.decompress(data) if path.suffix == ".xz" else data
    yield from map(json.loads, text.splitlines())


def expected(name: str) -> Iterator[dict[str, Any]]:
    """What Apache's classes read in store `name`."""
    return lines(GOLDEN / "stores" / f"{name}.expected.jsonl.xz")


def recovered(name: str) -> Iterator[dict[str, Any]]:
    """What Apache's broker reported (and left, if the store was killed or damaged) after opening store `name`."""
    return lines(GOLDEN / "stores" / f"{name}.recovered.jsonl.xz")


def frames(scenario: str) -> Iterator[dict[str, Any]]:
    """The lines of a wire scenario; `bytes` is the whole frame, or None where only its head was kept.

    `head` is always present: the frame's first bytes, all of them unless it was cut.
    """
    for line in lines(GOLDEN / "wire" / f"{scenario}.jsonl"):
        if "frame" in line:
            line["head"] = base64.b64decode(line["frame"])
            line["bytes"] = None if line.get("cut") else line["head"]
        yield line


def raw_bytes(line: dict[str, Any]) -> bytes:
    """The bytes in a line of the scenario `ha`; none in an event's line."""
    return base64.b64decode(line.get("bytes", ""))
