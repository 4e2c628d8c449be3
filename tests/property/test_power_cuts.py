"""Power cuts in which any mixture of unsynced sectors reaches the disk, whole or garbled; and kills, in which dispatch loses its place.

A store is synced at some point (log, queues, full IndexFiles, checkpoint), goes on for a while, and loses power. After
recovery and dispatch no synced data may be missing, and all indexes must equal a rebuild from the log. The same if only processes
are killed: nothing is lost then, but entries of the last batch are missing, and the last one of a queue may be torn.
"""

import os
import random
import shutil
from pathlib import Path

import pytest

from headrace.protocol.consume_queue_layout import ENTRY_SIZE
from store.abort_file import note_dispatched, write_abort
from store.checkpoint import Checkpoint, write_checkpoint
from store.config import StoreConfig
from store.index.layout import HEADER, HEADER_SIZE
from store.mapped_file import path_of
from store.paths import StorePaths
from store.recovery import dispatched_end
from store.recovery.recover import Recovered, recover
from support.dispatched_store import DispatchedStore, build, built_files, dispatched_store
from support.store_files import FIRST_TIMESTAMP, QUEUE_FILE_SIZE, LogBuilder, Written, small_config

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
        self.append(records)
        store.wrote(self.builder.offset)
        store.dispatch()

    def append(self, records: int) -> None:
        """Appends some more messages."""
        for _ in range(records):
            self.builder.append(
                topic=self.chance.choice(["T", "U", "V"]),
                queue_id=self.chance.randrange(2),
                body=self.chance.randbytes(self.chance.randrange(900)),
                properties=f"UNIQ_KEY\x01{len(self.builder.written)}\x02TAGS\x01{len(self.builder.written) % 7}",
            )

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

    def kill_in_batch(self, store: DispatchedStore, batch: int) -> None:
        """Appends more messages and dispatches up to one of them, takes back entries of the last batch, and tears one."""
        written, paths = self.builder.written, self.builder.paths
        before = len(written)
        self.append(self.chance.randrange(1, 400))
        last = self.chance.choice(written[before:])
        store.wrote(last.physical_offset + last.size_bytes)
        store.dispatch()
        in_batch = [
            one for one in written if last.physical_offset - batch < one.physical_offset <= last.physical_offset
        ]
        torn = self.chance.choice(in_batch)
        lacking = {
            (torn.topic, torn.queue_id),
            *self.chance.sample([(topic, queue) for topic in "TUV" for queue in (0, 1)], 3),
        }
        for record in in_batch[in_batch.index(torn) + 1 :]:
            if (record.topic, record.queue_id) in lacking:
                overwrite_entry(paths, record, 0)
        overwrite_entry(paths, torn, self.chance.choice([0, 8, 12, ENTRY_SIZE]))
        self.dispatched = torn.physical_offset
        fd = os.open(paths.abort, os.O_RDWR | os.O_CREAT, 0o640)
        write_abort(fd)
        os.close(fd)
        note_dispatched(paths.abort)

    def _sector(self, old: bytes, new: bytes) -> bytes:
        if old == new:
            return old
        roll = self.chance.random()
        if roll < 0.95:
            return new if roll < 0.6 else old
        # Synced parts of a sector survive: the model assumes that a sector is written completely or not at all.
        same = next(at for at in range(len(new)) if old[at] != new[at])
        return old[:same] + self.chance.randbytes(len(new) - same)


def overwrite_entry(paths: StorePaths, record: Written, kept: int) -> None:
    """Overwrites with zeros all but the first bytes of a ConsumeQueue entry."""
    position = record.queue_offset * ENTRY_SIZE
    start = position - position % QUEUE_FILE_SIZE
    with path_of(paths.queue(record.topic, record.queue_id), start).open("r+b") as file:
        file.seek(position - start + kept)
        file.write(bytes(ENTRY_SIZE - kept))


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
    assert_indexes_match_the_log(life, recovered, tmp_path / "fresh")


def assert_indexes_match_the_log(life: Life, recovered: Recovered, scratch: Path) -> None:
    """Goes on with dispatch, and compares with a store that is built from the log at once."""
    paths = life.builder.paths
    with dispatched_store(paths.root, life.config) as store:
        store.recovered(recovered.wrote_offset, recovered.reput_offset)
        store.dispatch()
    shutil.copytree(paths.commit_log, scratch / "commitlog")
    ours, fresh = built_files(paths.root), build(scratch, life.config)
    assert sorted(ours) == sorted(fresh)
    assert [path for path in fresh if ours[path] != fresh[path]] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_little_is_dispatched_again_after_a_kill_and_indexes_match_the_log(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatched_end, "DISPATCH_BATCH_BYTES", batch := 10_000)
    life = Life(tmp_path / "store", seed)
    with dispatched_store(life.builder.paths.root, life.config) as store:
        store.recovered(0)
        life.go_on(store, life.chance.randrange(1, 400))
        life.sync()
        life.kill_in_batch(store, batch)
    recovered = recover(life.config, life.builder.paths)
    assert recovered.wrote_offset == life.builder.offset
    dispatched = max(0, life.dispatched - batch - 20_000)  # 20,000: a queue has a record more often than that
    assert dispatched <= recovered.reput_offset <= life.dispatched
    assert_indexes_match_the_log(life, recovered, tmp_path / "fresh")
