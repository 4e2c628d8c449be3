"""A folder that is written to, on this machine's disk or behind a URL (s3://, hdfs://, gs://, or whatever fsspec knows).

What is published here must be there after a crash: on a disk files and folders are synced before they are named. An object store has no
rename; there a move is a copy and a delete, and readers that look at file names alone may see one half done.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa
from pyarrow import fs

from spark_exporter.errors import TargetError


class Location:
    """A folder. Names are relative to it, with slashes. Pickles. What fails raises TargetError in one line."""

    def __init__(self, uri: str) -> None:
        if not uri:
            raise TargetError("no target is named")
        self.uri = uri.rstrip("/") or "/"
        self._files, self._root = _open(self.uri)

    def __reduce__(self) -> tuple[type["Location"], tuple[str]]:
        return Location, (self.uri,)

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return isinstance(self._files, fs.LocalFileSystem)

    def path_of(self, name: str) -> str:
        """What readers of tables are given to open a file."""
        return self._at(name) if self.is_local else f"{self.uri}/{name}"

    def at(self, name: str) -> "Location":
        """A folder below."""
        return Location(f"{self.uri}/{name}")

    def make(self, folder: str = "") -> None:
        """Make a folder with all above it, if it is not there."""
        with _told(self.uri):
            self._files.create_dir(self._at(folder), recursive=True)

    def exists(self, name: str = "") -> bool:
        """Whether there is such a file or folder."""
        with _told(self.uri):
            return bool(self._files.get_file_info(self._at(name)).type != fs.FileType.NotFound)

    def size_of(self, name: str) -> int:
        """Bytes in a file."""
        with _told(self.uri):
            return int(self._files.get_file_info(self._at(name)).size)

    def list(self, folder: str, *, below: bool = False) -> list[str]:
        """Names of the files in a folder, with `below` also of those in its folders, sorted; none if it is not there."""
        with _told(self.uri):
            found = self._files.get_file_info(fs.FileSelector(self._at(folder), allow_not_found=True, recursive=below))
        start = len(self._root) + 1
        return sorted(info.path[start:] for info in found if info.type == fs.FileType.File)

    def open_read(self, name: str) -> pa.NativeFile:
        """A file to read at random places."""
        with _told(self.uri):
            return self._files.open_input_file(self._at(name))

    def open_write(self, name: str) -> pa.NativeFile:
        """A file to write, anew."""
        with _told(self.uri):
            self._files.create_dir(self._at(name).rpartition("/")[0], recursive=True)
            return self._files.open_output_stream(self._at(name))

    def read(self, name: str) -> bytes | None:
        """A whole file; None if it is not there."""
        try:
            with _told(self.uri), self._files.open_input_stream(self._at(name)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """A whole file: afterwards it is there with this content, or as it was."""
        temporary = f"{name}.new"
        with self.open_write(temporary) as file, _told(self.uri):
            file.write(data)
        self.sync(temporary)
        self.move(temporary, name)

    def sync(self, name: str) -> None:
        """Make a file's content durable."""
        if self.is_local:
            with _told(self.uri):
                _sync(self._at(name))

    def move(self, name: str, to: str) -> None:
        """Name a file anew; what had that name is gone."""
        self.move_to(name, self, to)

    def move_to(self, name: str, other: "Location", to: str) -> None:
        """Move a file to another folder of the same file system; what had that name there is gone."""
        with _told(self.uri):
            final = other._at(to)  # noqa: SLF001  another of our own kind
            folder = final.rpartition("/")[0]
            self._files.create_dir(folder, recursive=True)
            self._files.move(self._at(name), final)
            if self.is_local:
                _sync(folder)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        try:
            with _told(self.uri):
                self._files.delete_file(self._at(name))
        except FileNotFoundError:
            pass

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all in it, if it is there."""
        if self.is_local:
            shutil.rmtree(self._at(folder), ignore_errors=True)
        elif self.exists(folder):
            with _told(self.uri):
                self._files.delete_dir(self._at(folder))

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root


@contextmanager
def telling(uri: str) -> Iterator[None]:
    """Turns what goes wrong with files of a target, also that one is gone or is no Parquet, into a TargetError of one line."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise TargetError(f"{uri}: {str(error).strip().splitlines()[0]}") from None
    except OSError as error:
        raise TargetError(f"{uri}: {reason_of(error)}") from None


class _told:  # noqa: N801  reads as a clause
    """Turns errors of file systems into one line; a file that is missing stays FileNotFoundError."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise TargetError(f"{self._uri}: {reason_of(error)}") from None


def reason_of(error: OSError) -> str:
    """What went wrong, in a few words: those of the system where it has a number for it."""
    if error.errno:
        return os.strerror(error.errno)
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _open(uri: str) -> tuple[fs.FileSystem, str]:
    if "://" not in uri:
        return fs.LocalFileSystem(), os.path.abspath(uri)
    try:
        files, root = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        files, root = _open_with_fsspec(uri, error)
    except OSError as error:
        raise TargetError(f"{uri}: {reason_of(error)}") from None
    return files, root.rstrip("/")


def _open_with_fsspec(uri: str, reason: Exception) -> tuple[fs.FileSystem, str]:
    try:
        import fsspec  # noqa: PLC0415  only for schemes that pyarrow does not know
    except ImportError:
        raise TargetError(
            f"{uri}: {str(reason).splitlines()[0]}; more schemes are known where fsspec is installed"
        ) from None
    try:
        files, root = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError, OSError) as error:
        raise TargetError(f"{uri}: {error}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(files)), root


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_lock(location: Location, name: str) -> IO[Any]:
    """A local file, open for reading and writing, made if it is not there: to be locked."""
    path = location.path_of(name)
    try:
        with _told(location.uri):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+", encoding="utf-8")
    except FileNotFoundError:  # nothing was to be there: this is a file system where no folder can be made
        raise TargetError(f"{location.uri}: no folder can be made there") from None
