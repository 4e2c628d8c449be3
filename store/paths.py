"""Where the files of a store are: the layout of `storePathRootDir`.

    <root>/commitlog/<20 digits>                        or storePathCommitLog
    <root>/consumequeue/<topic>/<queue id>/<20 digits>
    <root>/index/<yyyyMMddHHmmssSSS>
    <root>/config/*.json
    <root>/checkpoint  abort  lock

Nothing is read or made here but by `make_directories`.
"""

from dataclasses import dataclass, field
from pathlib import Path

DIGITS_OF_A_NAME = 20


def file_name(start_offset: int) -> str:
    """The name of a mapped file that begins at this offset: 20 decimal digits."""
    return f"{start_offset:020d}"


@dataclass(frozen=True, slots=True)
class StorePaths:
    """The places under a store's root; `commit_log_dir` moves the CommitLog elsewhere (storePathCommitLog)."""

    root: Path
    commit_log_dir: Path | None = None
    commit_log: Path = field(init=False)
    consume_queue: Path = field(init=False)
    index: Path = field(init=False)
    config: Path = field(init=False)
    checkpoint: Path = field(init=False)
    abort: Path = field(init=False)
    lock: Path = field(init=False)

    def __post_init__(self) -> None:
        root = Path(self.root)
        places = {
            "root": root,
            "commit_log": Path(self.commit_log_dir) if self.commit_log_dir else root / "commitlog",
            "consume_queue": root / "consumequeue",
            "index": root / "index",
            "config": root / "config",
            "checkpoint": root / "checkpoint",
            "abort": root / "abort",
            "lock": root / "lock",
        }
        for name, place in places.items():
            object.__setattr__(self, name, place)

    def config_file(self, name: str) -> Path:
        """A file of `config/`, such as `topics.json`."""
        return self.config / name

    def queue(self, topic: str, queue_id: int) -> Path:
        """The directory of one ConsumeQueue."""
        return self.consume_queue / topic / str(queue_id)

    def make_directories(self) -> None:
        """Makes the directories that a running store needs; those that exist are left alone."""
        for directory in (self.root, self.commit_log, self.consume_queue, self.index, self.config):
            directory.mkdir(parents=True, exist_ok=True)
