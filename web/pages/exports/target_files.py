"""TargetFiles: the status of exports from the files in their `_export` folders, without the exporter and its packages.

The format is that of `spark_exporter.targets.ledger` and `target_lock`. Manifests never change, so each is read once; a page reads a bounded number
of them, and shows what it has until the rest is read.
"""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What the appliance accepts as the name of a target."""
MOST_TARGETS: Final = 500  # limit: folders that a page looks into
_MOST_MANIFESTS: Final = 2_000  # limit: new ones that a page reads, some 100 ms
_MANIFEST: Final = re.compile(r"\d{20}\.json")
_LONGEST_BYTES: Final = 16 << 20  # limit: a manifest of 50,000 files
_GREATEST_PID: Final = 1 << 22  # limit: Linux's own

T = TypeVar("T")


class _Choice(msgspec.Struct):
    topics: list[str] | None = None
    include_system: bool = False


class _Layout(msgspec.Struct):
    group_by_topic: bool = False
    table_per_topic: bool = False


class _Spec(msgspec.Struct):
    format: str
    choice: _Choice
    layout: _Layout
    inflate: bool = True
    all_properties: bool = False
    body: Any = None


class _Progress(msgspec.Struct):
    first: int
    end: int
    last_store_ms: int


class _Range(msgspec.Struct):
    rows: int
    damaged: int


class _File(msgspec.Struct):
    size_bytes: int


class _Commit(msgspec.Struct):
    progress: dict[str, _Progress]
    ranges: list[_Range] = []
    files: list[_File] = []
    removed: list[str] = []
    kind: str = "export"
    time_ms: int = 0


class _Owner(msgspec.Struct):
    pid: Annotated[int, msgspec.Meta(ge=1, le=_GREATEST_PID)]
    command: str = ""
    started: int | None = None
    boot: str = ""
    pid_namespace: str = ""
    since: int = 0


class BrokerProgress(msgspec.Struct, frozen=True):
    """How far one broker's log is in a target: offsets, and when the last exported message was stored."""

    broker: str
    first: int
    end: int
    last_stored: int


class Target(msgspec.Struct, frozen=True):
    """One target. Sums are None until all its manifests have been read."""

    target: str
    format: str = ""
    topics: Sequence[str] = ()
    """Empty: all but the brokers' own."""
    is_plain: bool = False
    """Whether it was made with options that the console's form has; others are continued on the command line."""
    progress: Sequence[BrokerProgress] = ()
    rows: int | None = None
    damaged: int | None = None
    written_bytes: int | None = None
    commits: int = 0
    last_commit: int = 0
    is_interrupted: bool = False
    """Whether a commit waits to be published by the next export: readers may see only some of its files."""
    owner: str = ""
    """The process that writes to it now; empty if there is none."""
    problem: str = ""
    """Why it cannot be read."""


class _Sums(Struct):
    """What the manifests up to a number add up to."""

    identity: tuple[int, int]
    last: str = ""
    rows: int = 0
    damaged: int = 0
    written_bytes: int = 0
    commit: _Commit | None = None


class TargetFiles(Struct):
    """Reads targets; blocks, so call it in a thread. Not for two threads at once."""

    _sums: dict[Path, _Sums] = field(default_factory=dict)

    def list(self, folder: Path) -> tuple[Sequence[Target], int]:
        """The targets in a folder, none if it does not exist; and the number of folders that were not looked into. Raises OSError."""
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return (), 0
        found = (self.find(folder, name) for name in names[:MOST_TARGETS])
        return [target for target in found if target is not None], max(0, len(names) - MOST_TARGETS)

    def find(self, folder: Path, name: str) -> Target | None:
        """One target; None if there is none of that name. What is wrong with it is in its `problem`."""
        if not NAME.fullmatch(name):
            return None
        own = folder / name / "_export"
        try:
            if not all(stat.S_ISDIR(path.lstat().st_mode) for path in (folder / name, own)):
                return None
            return self._read(name, own)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            return Target(name, problem=_reason(error))

    def _read(self, name: str, own: Path) -> Target:
        spec = _decode(own / "target.json", _Spec)
        names = _manifests(own / "manifests")
        sums, is_complete = self._sum(own, names)
        last = sums.commit
        return Target(
            name,
            spec.format,
            spec.choice.topics or (),
            _is_plain(spec),
            [
                BrokerProgress(broker, one.first, one.end, one.last_store_ms)
                for broker, one in sorted(last.progress.items())
            ]
            if last
            else (),
            sums.rows if is_complete else None,
            sums.damaged if is_complete else None,
            sums.written_bytes if is_complete else None,
            len(names),
            last.time_ms if last else 0,
            not set(_manifests(own / "pending")) <= set(names),
            _owner(own / "lock"),
        )

    def _sum(self, own: Path, names: Sequence[str]) -> tuple[_Sums, bool]:
        """The sums, and whether they contain all manifests. A target that was deleted and made again is another."""
        made = (own / "target.json").stat()
        identity = (made.st_ino, made.st_mtime_ns)
        sums = self._sums.get(own)
        if sums is None or sums.identity != identity:
            sums = self._sums[own] = _Sums(identity)
        new = [name for name in names if name > sums.last]
        for name in new[:_MOST_MANIFESTS]:
            commit = _decode(own / "manifests" / name, _Commit)
            sums.commit, sums.last = commit, name
            if commit.kind == "export":
                sums.rows += sum(one.rows for one in commit.ranges)
                sums.damaged += sum(one.damaged for one in commit.ranges)
                sums.written_bytes += sum(one.size_bytes for one in commit.files)
        return sums, len(new) <= _MOST_MANIFESTS


def _decode(path: Path, kind: type[T]) -> T:
    """Raises OSError, ValueError, MsgspecError."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path.name} is not a file")
        data = file.read(_LONGEST_BYTES + 1)
    if len(data) > _LONGEST_BYTES:
        raise ValueError(f"{path.name} is larger than {_LONGEST_BYTES} bytes")
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path.name} is corrupt: {error}") from error


def _manifests(folder: Path) -> Sequence[str]:
    try:
        return sorted(name for name in os.listdir(folder) if _MANIFEST.fullmatch(name))
    except FileNotFoundError:
        return ()


def _is_plain(spec: _Spec) -> bool:
    layout = spec.layout
    has_layout = layout.group_by_topic or layout.table_per_topic
    is_default = spec.inflate and not spec.all_properties and spec.body is None
    return is_default and not has_layout and not spec.choice.include_system


def _owner(lock: Path) -> str:
    """The current owner's own description; empty if there is none. A run that was killed leaves its description in the file."""
    try:
        owner = _decode(lock, _Owner)
    except (OSError, ValueError):
        return ""
    if _is_here(owner) and _started(owner.pid) != owner.started:
        return ""
    return f"{owner.command}, pid {owner.pid}"


def _is_here(owner: _Owner) -> bool:
    """Whether it ran where processes have the same ids as here: otherwise nothing is known of it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return owner.boot == boot and owner.pid_namespace == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def _started(pid: int) -> int | None:
    """When a process started, in ticks since boot; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()
    return None if state in {"Z", "X", "x"} else int(fields[18])


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    return str(error)
