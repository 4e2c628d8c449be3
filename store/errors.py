# ruff: noqa: N818  (names say what is wrong; the tree below says that they are errors)
"""Errors of a store's files.

    StoreError
    ├── CorruptRecord      bytes inside the published log are no record
    ├── WrongFileLength    a file's length is not the configured one
    ├── UnexpectedFile     a file is where only mapped files may, or there is a gap between two
    ├── StoreFull          no space to reserve a file
    ├── SyncFailed         the disk did not take what was written; final
    ├── BadStoreConfig     settings that contradict each other or the files
    └── HaError            a slave cannot continue with this master

Outcomes that a client may cause are values (`store.status`), not exceptions. Every message is one line that names the file
and says what to do.
"""

from pathlib import Path


class StoreError(Exception):
    """The root of this package's errors."""


class CorruptRecord(StoreError):
    """Bytes at a published physical offset are not a valid record."""

    def __init__(self, physical_offset: int, reason: str) -> None:
        super().__init__(f"no valid record at physical offset {physical_offset}: {reason}")
        self.physical_offset = physical_offset
        self.reason = reason


class WrongFileLength(StoreError):
    """A mapped file's length is not the configured one; nothing has been changed."""

    def __init__(self, path: Path, length: int, expected: int, option: str) -> None:
        super().__init__(
            f"{path} has {length} bytes, but {option}={expected}: set {option} to the file size of this store, "
            f"or move the file away if it does not belong to the store (nothing was changed)"
        )
        self.path = path
        self.length = length
        self.expected = expected


class UnexpectedFile(StoreError):
    """A directory of mapped files holds something else, or lacks one of its files; nothing has been changed."""


class StoreFull(StoreError):
    """The disk has no room for a file that must be reserved."""

    def __init__(self, path: Path, size_bytes: int, free_bytes: int) -> None:
        super().__init__(
            f"cannot allocate {path}: {size_bytes} bytes needed, {free_bytes} available; free up space on that disk"
        )
        self.path = path
        self.size_bytes = size_bytes
        self.free_bytes = free_bytes


class SyncFailed(StoreError):
    """A sync reported an error. A second one that succeeds would prove nothing, so this is final."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"cannot sync {path}: {error.strerror}; its last writes may be lost; check the disk, then restart"
        )
        self.path = path


class BadStoreConfig(StoreError):
    """Settings that cannot work together, or with this store's files."""


class HaError(StoreError):
    """What a master sends cannot be appended to this slave's log."""
