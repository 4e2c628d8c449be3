"""A small file system in a file: a disk that a test can fill."""

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

IS_POSSIBLE = os.geteuid() == 0 and shutil.which("mkfs.ext4") is not None and Path("/dev/loop-control").exists()
"""Whether this process may mount one."""


class Volume:
    """An ext4 file system of `size_bytes`, mounted at `path` while the context lasts; empty, or a copy that `leave` made in this folder."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.path = folder / "volume"
        self._image = folder / "volume.img"
        self._foreign = self.path / "foreign"
        self.path.mkdir()
        if self._image.exists():
            return
        with self._image.open("wb") as image:
            image.truncate(size_bytes)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", self._image], check=True, capture_output=True)

    def leave(self, folder: Path) -> None:
        """Copies the disk as it is, without what is only in the memory: what a power cut leaves."""
        shutil.copyfile(self._image, folder / self._image.name)

    def __enter__(self) -> Self:
        subprocess.run(["mount", "-o", "loop", self._image, self.path], check=True, capture_output=True)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        # Lazily: if a process of a failed test is left, the volume is detached when it ends.
        subprocess.run(["umount", "-l", self.path], check=True, capture_output=True)
        self._image.unlink()

    @property
    def used_ratio(self) -> float:
        """The used share, computed as in RocketMQ."""
        figures = os.statvfs(self.path)
        used = figures.f_blocks - figures.f_bfree
        return used / (used + figures.f_bavail)

    def fill_to(self, ratio: float) -> None:
        """Fills the disk to this share with a foreign file."""
        self.free()
        figures = os.statvfs(self.path)
        used = figures.f_blocks - figures.f_bfree
        blocks = int(ratio * (used + figures.f_bavail)) - used
        assert blocks > 0, "the disk is already fuller"
        with self._foreign.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, blocks * figures.f_frsize)

    def free(self) -> None:
        """Removes that file."""
        self._foreign.unlink(missing_ok=True)


def deleted_files_held(pids: list[int], folder: Path) -> dict[int, set[str]]:
    """The deleted files under `folder` that these processes still map or have open, by pid."""
    held: dict[int, set[str]] = {}
    for pid in pids:
        names: set[str] = set()
        try:
            maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
            names.update(line.split(maxsplit=5)[5] for line in maps if line.endswith("(deleted)"))
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    names.add(os.readlink(fd))
                except FileNotFoundError:
                    continue
        except (FileNotFoundError, ProcessLookupError):
            continue
        found = {name for name in names if name.endswith("(deleted)") and name.startswith(f"{folder}/")}
        if found:
            held[pid] = found
    return held
