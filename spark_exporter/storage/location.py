"""Location: a folder on this machine's disk or behind a URL (s3://, hdfs://, gs://, and other schemes of fsspec).

Published files must survive a crash: on a disk, files and folders are synced before they get their names. Object stores have no
rename; a move is a copy and a delete, and readers that list names may see it half done.

Relative paths are made absolute at once, because workers on other machines have different working directories. Options in a URL's query
(`s3://bucket/path?region=…`) stay at the end of the URL and are not printed.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final

import pyarrow as pa
from pyarrow import fs

from spark_exporter.errors import MissingPackage, TargetError
from spark_exporter.storage.conditional_write import UNFINISHED, ObjectStore, find_creator, is_object_store, s3_options

_SAME: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of schemes."""
_GS_RETRIES: Final = "retry_limit_seconds=60"
"""# limit: how long requests to Google's store are retried; its default is 15 minutes."""


class Location:
    """A folder. Names are relative to it, with slashes. Can be pickled. Failures raise TargetError in one line.

    `uri`: an absolute path, or the URL without its query. `query`: the options in it.
    """

    def __init__(self, uri: str) -> None:
        if not uri:
            raise TargetError("no target given")
        self.uri, self.query = split_url(uri)
        self._files, self._root = _open(self.uri, self.query)
        self._objects: ObjectStore | None = None

    def __reduce__(self) -> tuple[type["Location"], tuple[str]]:
        return Location, (self._with_query(self.uri),)

    @property
    def is_local(self) -> bool:
        """Whether it is a folder on this machine."""
        return isinstance(self._files, fs.LocalFileSystem)

    def path_of(self, name: str) -> str:
        """The path or URL with which readers of tables open a file."""
        return self._at(name) if self.is_local else f"{self.uri}/{name}"

    def s3_options(self) -> dict[str, str]:
        """The options of an S3 store in the URL, with the names of the library object_store; empty for other locations."""
        return s3_options(self._files, self._with_query(self.uri)) if self._files.type_name == "s3" else {}

    def at(self, name: str) -> "Location":
        """A folder below."""
        return Location(self._with_query(f"{self.uri}/{name}"))

    def _with_query(self, uri: str) -> str:
        return f"{uri}?{self.query}" if self.query else uri

    def make(self, folder: str = "") -> None:
        """Create a folder and its parents if they do not exist."""
        with _told(self.uri):
            self._make(self._at(folder))

    def exists(self, name: str = "") -> bool:
        """Whether the file or folder exists."""
        with _told(self.uri):
            return bool(self._files.get_file_info(self._at(name)).type != fs.FileType.NotFound)

    def size_of(self, name: str) -> int:
        """The size of a file in bytes. Raises TargetError if it does not exist."""
        with _told(self.uri):
            info = self._files.get_file_info(self._at(name))
        if info.type != fs.FileType.File:
            raise TargetError(f"{self.path_of(name)} is missing; run the export again")
        return int(info.size)

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder, without its path."""
        with _told(self.uri):
            found = self._files.get_file_info(fs.FileSelector(self._at(folder), allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def list(self, folder: str, *, below: bool = False) -> list[str]:
        """Names of the files in a folder, with `below` also in its subfolders, sorted; empty if it does not exist.

        Unfinished files are left out.
        """
        return [name for name in self._list(folder, below=below) if not name.endswith(UNFINISHED)]

    def clear_unfinished(self, folder: str) -> None:
        """Delete unfinished files of killed processes in a folder. Call it only while nothing else writes there."""
        for name in self._list(folder, below=False):
            if name.endswith(UNFINISHED):
                self.delete(name)

    def _list(self, folder: str, *, below: bool) -> Sequence[str]:
        with _told(self.uri):
            found = self._files.get_file_info(fs.FileSelector(self._at(folder), allow_not_found=True, recursive=below))
        start = len(self._root) + 1
        return sorted(info.path[start:] for info in found if info.type == fs.FileType.File)

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Sizes in bytes of the files in a folder and its subfolders, by name."""
        with _told(self.uri):
            found = self._files.get_file_info(fs.FileSelector(self._at(folder), allow_not_found=True, recursive=True))
        start = len(self._root) + 1
        return {info.path[start:]: int(info.size) for info in found if info.type == fs.FileType.File}

    def open_read(self, name: str) -> pa.NativeFile:
        """Open a file for random access."""
        with _told(self.uri):
            return self._files.open_input_file(self._at(name))

    def open_write(self, name: str) -> pa.NativeFile:
        """Opens a file for writing; an existing one is replaced."""
        with _told(self.uri):
            self._make(self._at(name).rpartition("/")[0])
            return self._files.open_output_stream(self._at(name))

    def read(self, name: str) -> bytes | None:
        """Read a file; None if it does not exist."""
        if self._is_store:
            return self._store.read(self._at(name))
        try:
            with _told(self.uri), self._files.open_input_stream(self._at(name)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically: after a failure it has its previous content."""
        if self._is_store:
            self._store.write(self._at(name), data)
            return
        temporary = f"{name}{UNFINISHED}"
        with self.open_write(temporary) as file, _told(self.uri):
            file.write(data)
        self.sync(temporary)
        self.move(temporary, name)

    def create(self, name: str, data: bytes) -> bool:
        """Create a file if the name is not taken; of two concurrent calls one succeeds. Returns whether it now exists with this content.

        Also raises MissingPackage, because object stores need a package for it.
        """
        try:
            with _told(self.uri):
                create = self._store.create if self._is_store else find_creator(self._files)
                if create(self._at(name), data):
                    return True
        except FileNotFoundError:
            raise TargetError(
                f"cannot create folder {self.uri}: this file system does not allow it; check the path"
            ) from None
        return self.read(name) == data

    def sync(self, name: str) -> None:
        """Make a file's content durable."""
        if self.is_local:
            with _told(self.uri):
                _sync(self._at(name))

    def move(self, name: str, to: str) -> None:
        """Rename a file; an existing file of the new name is replaced."""
        self.move_to(name, self, to)

    def move_to(self, name: str, other: "Location", to: str) -> None:
        """Move a file to another folder of the same file system; an existing file of that name is replaced."""
        with _told(self.uri):
            final = other._at(to)  # noqa: SLF001  another of our own kind
            folder = final.rpartition("/")[0]
            self._make(folder)
            self._files.move(self._at(name), final)
            if self.is_local:
                _sync(folder)

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        try:
            with _told(self.uri):
                self._files.delete_file(self._at(name))
        except FileNotFoundError:
            pass

    def delete_folder(self, folder: str) -> None:
        """Delete a folder and its contents if it exists."""
        if self.is_local:
            shutil.rmtree(self._at(folder), ignore_errors=True)
        elif self.exists(folder):
            with _told(self.uri):
                self._files.delete_dir(self._at(folder))

    @property
    def _is_store(self) -> bool:
        return is_object_store(self._files)

    @property
    def _store(self) -> ObjectStore:
        if self._objects is None:
            self._objects = ObjectStore(self._files, self._with_query(self.uri))
        return self._objects

    def _make(self, folder: str) -> None:
        if not self._is_store:  # object stores have no folders; a marker object may stand for one
            self._files.create_dir(folder, recursive=True)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root


@contextmanager
def telling(uri: str) -> Iterator[None]:
    """Turns errors with a target's files, including missing and invalid ones, into a TargetError of one line."""
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
        if isinstance(error, (OSError, pa.ArrowException)) and not isinstance(error, FileNotFoundError):
            raise TargetError(f"{self._uri}: {reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """The reason of an error in a few words: the system's text if it has an error number."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def split_url(target: str) -> tuple[str, str]:
    """Split a target into its absolute path or URL, and the query of the URL."""
    scheme, separator, rest = target.partition("://")
    if not separator:
        return os.path.abspath(target), ""
    path, _, query = rest.partition("?")
    return f"{_SAME.get(scheme, scheme)}://{path.rstrip('/')}", query


def _open(uri: str, query: str) -> tuple[fs.FileSystem, str]:
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return fs.LocalFileSystem(), uri
    if scheme in {"gs", "gcs"} and "retry_limit_seconds" not in query:
        query = "&".join(filter(None, (query, _GS_RETRIES)))
    whole = f"{uri}?{query}" if query else uri
    try:
        files, root = fs.FileSystem.from_uri(whole)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        files, root = _open_with_fsspec(uri, whole, error)
    except OSError as error:
        raise TargetError(f"{uri}: {reason_of(error)}") from None
    return files, root.rstrip("/")


def _open_with_fsspec(uri: str, whole: str, reason: Exception) -> tuple[fs.FileSystem, str]:
    scheme = uri.partition("://")[0]
    try:
        import fsspec  # noqa: PLC0415  only for schemes that pyarrow does not know
        from fsspec.registry import known_implementations  # noqa: PLC0415
    except ImportError:
        raise MissingPackage(
            f"{uri}: {str(reason).splitlines()[0]}; other schemes require the package fsspec (pip install fsspec), and some require a package of their own"
        ) from None
    if scheme not in fsspec.available_protocols():
        raise TargetError(f"{uri}: {str(reason).splitlines()[0]}; fsspec does not support the scheme either")
    try:
        files, root = fsspec.core.url_to_fs(whole)
    except ImportError as error:
        said = known_implementations.get(scheme, {}).get("err") or str(error)
        raise MissingPackage(f"{uri}: the package for {scheme}:// is not installed: {said}") from None
    except (ValueError, OSError) as error:
        raise TargetError(f"{uri}: {str(error).splitlines()[0]}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(files)), root


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_lock(location: Location, name: str) -> IO[Any]:
    """A local file to be locked, open for reading and writing, created if it does not exist."""
    path = location.path_of(name)
    try:
        with _told(location.uri):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+", encoding="utf-8")
    except FileNotFoundError:  # the folder did not exist and cannot be created on this file system
        raise TargetError(
            f"cannot create folder {location.uri}: this file system does not allow it; check the path"
        ) from None
