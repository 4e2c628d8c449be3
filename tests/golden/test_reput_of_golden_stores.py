"""Dispatch of RocketMQ's CommitLogs builds RocketMQ's ConsumeQueue and IndexFile bytes, compiled and interpreted."""

import json
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest

from store.inspect.verify import Finding, verify
from store.recovery.recover import recover
from support import golden
from support.dispatched_store import build, built_files, config_of, dispatched_store
from support.interpreted import run_interpreted

STORES = ("plain", "kinds", "ext", "lmq", "unclean", "slave-master", "slave")
MADE_BY_BOTH = ("plain", "lmq")


def unpack_log(name: str, target: Path) -> tuple[Path, Path]:
    """A golden store, and another store with only the same log."""
    original = golden.unpack(name, target)
    bare = target / "bare"
    shutil.copytree(original / "commitlog", bare / "commitlog")
    return original, bare


def build_from_log(name: str, bare: Path) -> dict[str, bytes]:
    head, *lines = golden.expected(name)
    bit_maps = {
        (line["topic"].encode(), line["offset"]): bytes.fromhex(line["extBitMap"])
        for line in lines
        if "extBitMap" in line
    }
    # The bit maps that the broker's filters computed are given; filters are not tested here.
    return build(bare, config_of(head), lambda topic, offset, _properties: bit_maps.get((topic, offset), b""))


@pytest.mark.slow
@pytest.mark.parametrize("name", STORES)
def test_files_built_from_the_log_equal_rocketmqs(name: str, tmp_path: Path) -> None:
    original, bare = unpack_log(name, tmp_path)
    ours, theirs = build_from_log(name, bare), built_files(original)
    assert sorted(ours) == sorted(theirs)
    assert [path for path in theirs if ours[path] != theirs[path]] == []


def digests_of_a_build(given: bytes) -> bytes:
    """The digests of the files built from a golden store's log. Runs in either interpreter."""
    with tempfile.TemporaryDirectory() as target:
        _, bare = unpack_log(given.decode(), Path(target))
        built = build_from_log(given.decode(), bare)
    return json.dumps({path: sha256(data).hexdigest() for path, data in sorted(built.items())}).encode()


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE_BY_BOTH)
def test_compiled_and_interpreted_dispatch_build_the_same_files(name: str) -> None:
    compiled = digests_of_a_build(name.encode())
    assert run_interpreted("golden.test_reput_of_golden_stores", "digests_of_a_build", name.encode()) == compiled


@pytest.mark.slow
@pytest.mark.parametrize("name", [*STORES, *golden.variants()])
def test_every_store_verifies_after_recovery_and_dispatch(name: str, tmp_path: Path) -> None:
    """After recovery and dispatch, log, queues and index agree, whatever the state of the store before."""
    root = golden.unpack(name, tmp_path)
    base = json.loads((golden.GOLDEN / "stores" / f"{name}.json").read_text())["base"] if name not in STORES else name
    head = next(golden.expected(base))
    with dispatched_store(root, config_of(head)) as store:
        recovered = recover(store.config, store.paths)
        store.recovered(recovered.wrote_offset, recovered.reput_offset, recovered.min_offset)
        store.dispatch()
        assert store.control.reput_offset == recovered.wrote_offset
    store.paths.abort.unlink(missing_ok=True)
    settings = head["settings"]
    said = verify(root, settings["maxHashSlotNum"], settings["maxIndexNum"])
    found = [finding for finding in said if isinstance(finding, Finding) and finding.part != "checkpoint"]
    assert [str(finding) for finding in found] == []
