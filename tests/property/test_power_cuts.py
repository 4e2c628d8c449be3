"""Power cuts in which any mixture of unsynced sectors reaches the disk, whole or garbled.

A store is synced at some point (log, queues, full IndexFiles, checkpoint), goes on for a while, and loses power. After
recovery and dispatch no synced data may be missing, and all indexes must equal a rebuild from the log.
"""

import os
import random
import shutil
from pathlib import Path

import pytest

from store.checkpoint import Checkpoint, write_checkpoint
from store.config import StoreConfig
from store.index.layout import HEADER, HEADER_SIZE
from store.paths import StorePaths
from store.recovery.recover import recover
from support.dispatched_store import DispatchedStore, build, built_files, dispatched_store
from support.store_files import FIRST_TIMESTAMP, LogBuilder, small_config

FULL_LENGTH = os.environ.get("HEADRACE_CRASH_ROUNDS") == "full"
SEEDS = [
    *range(25),
    *(pytest.param(seed, marks=pytest.mark.crash) for seed in range(25, 500 if FULL_LENGTH else 25)),
]
SECTOR = 512
SECOND = 1000


class Life:
    """A store that is written, dispatched, synced, and finally loses power."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.config: StoreConfig = small_config(root)
        self.builder = LogBuilder(self.config)
        self.flushed = 0

    def go_on(self, store: DispatchedStore, records: int) -> None:
        """Appends and dispatches some more messages."""
        for _ in range(records):
            self.builder.append(
                topic=self.chance.choice(["T", "U", "V"]),
                queue_id=self.chance.randrange(2),
                body=self.chance.randbytes(self.chance.randrange(900)),
                properties=f"UNIQ_KEY\x01{len(self.builder.written)}",
            )
        store.wrote(self.builder.offset)
        store.dispatch()

    def sync(self) -> dict[Path, bytes]:
        """Does what the housekeeper and flush do: syncs and writes a checkpoint. Returns what is durably on disk."""
        paths = self.builder.paths
        now = FIRST_TIMESTAMP + SECOND * (len(self.builder.written) - 1)
        full = sorted(paths.index.iterdir())[:-1]
        index = HEADER.unpack(full[-1].read_bytes()[:HEADER_SIZE])[1] if full else 0
        write_checkpoint(paths.checkpoint, Checkpoint(now, now, index))
        self.flushed = self.builder.offset
        current = {path.name for path in sorted(paths.index.iterdir())[-1:]}
        return {path: data for path, data in contents(paths).items() if path.name not in current}

    def flush_some_more(self, before: int) -> None:
        """Flushes some more, as the flush role does at any time."""
        later = [record.physical_offset for record in self.builder.written if record.physical_offset >= before]
        self.flushed = self.chance.choice([before, *later, self.builder.offset])

    def cut(self, synced: dict[Path, bytes]) -> None:
        """Reduces each file to what survives the power cut."""
        paths = self.builder.paths
        for path, new in contents(paths).items():
            in_log = path.parent == paths.commit_log
            old = synced.get(path)
            if old is None and not in_log and self.chance.random() < 0.3:
                path.unlink()  # its name was not synced either
                continue
            # A reserved file is synced while it is all zeros.
            kept = bytearray(old if old is not None else bytes(len(new)))
            for at in range(0, len(new), SECTOR):
                end = min(at + SECTOR, len(new))
                kept[at:end] = self._sector(bytes(kept[at:end]), new[at:end])
            if in_log:
                safe = max(0, min(self.flushed - int(path.name), len(new)))
                kept[:safe] = new[:safe]
            path.write_bytes(kept)
        paths.abort.touch()

    def _sector(self, old: bytes, new: bytes) -> bytes:
        if old == new:
            return old
        roll = self.chance.random()
        if roll < 0.95:
            return new if roll < 0.6 else old
        # Synced parts of a sector survive: the model assumes that a sector is written completely or not at all.
        same = next(at for at in range(len(new)) if old[at] != new[at])
        return old[:same] + self.chance.randbytes(len(new) - same)


def contents(paths: StorePaths) -> dict[Path, bytes]:
    """The files that are written while a store runs, except the checkpoint."""
    wanted = [*paths.commit_log.iterdir(), *paths.consume_queue.glob("*/*/*"), *paths.index.iterdir()]
    return {path: path.read_bytes() for path in wanted}


@pytest.mark.parametrize("seed", SEEDS)
def test_power_cut_loses_no_synced_data_and_indexes_match_the_log(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path / "store", seed)
    paths = life.builder.paths
    with dispatched_store(paths.root, life.config) as store:
        store.recovered(0)
        life.go_on(store, life.chance.randrange(400))
        synced = life.sync()
        before = life.flushed
        life.go_on(store, life.chance.randrange(1, 400))
        life.flush_some_more(before)
    written = b"".join(path.read_bytes() for path in sorted(paths.commit_log.iterdir()))
    life.cut(synced)

    recovered = recover(life.config, paths)
    assert recovered.wrote_offset >= life.flushed
    log = b"".join(path.read_bytes() for path in sorted(paths.commit_log.iterdir()))
    assert log[: life.flushed] == written[: life.flushed]
    assert not log[recovered.wrote_offset :].strip(b"\0")
    with dispatched_store(paths.root, life.config) as store:
        store.recovered(recovered.wrote_offset, recovered.reput_offset)
        store.dispatch()
    shutil.copytree(paths.commit_log, tmp_path / "fresh" / "commitlog")
    ours, fresh = built_files(paths.root), build(tmp_path / "fresh", life.config)
    assert sorted(ours) == sorted(fresh)
    assert [path for path in fresh if ours[path] != fresh[path]] == []
