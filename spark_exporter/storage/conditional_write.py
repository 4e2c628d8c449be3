"""Creates a file only if none of that name exists. This prevents two runs from writing to one target.

| where | how |
|---|---|
| a disk | a temporary file, synced, then a hard link, which fails if the name is taken |
| s3://, gs://, abfs:// | the store's conditional write (If-None-Match, a generation, an ETag), with the package obstore |
| other schemes, with fsspec | mode `xb` |
| hdfs:// | a temporary file, then a rename, which HDFS refuses if the name is taken |

Each returns False if the name was taken. A request that is retried after a lost response finds its own file; `Location.create` compares contents.
"""

import importlib.util
import os
import secrets
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from pyarrow import fs

from spark_exporter.errors import MissingPackage, TargetError

Create = Callable[[str, bytes], bool]
"""Creates a file. Paths are those of the pyarrow file system."""

_STORES: Final = frozenset({"s3", "gcs", "abfs"})
_REQUEST_S: Final = "30s"


UNFINISHED: Final = ".new"
"""Suffix of files that are being written. Killed processes leave them behind; `Location` lists them only to delete them."""


def is_object_store(files: fs.FileSystem) -> bool:
    """Whether it is an object store, without folders and rename, but with conditional writes: see `ObjectStore`."""
    return files.type_name in _STORES


def find_creator(files: fs.FileSystem) -> Create:
    """How files are created on a file system that is not an object store."""
    if isinstance(files, fs.LocalFileSystem):
        return _create_on_disk
    if isinstance(files, fs.PyFileSystem):
        return _creator_of_fsspec(files.handler.fs)
    return _creator_by_rename(files)


def _create_on_disk(path: str, data: bytes) -> bool:
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    temporary = f"{path}.{secrets.token_hex(4)}{UNFINISHED}"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:
            # A file system without links. The kernel's lock on the target keeps other runs out meanwhile.
            if os.path.exists(path):
                return False
            os.rename(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


class ObjectStore:
    """A bucket, accessed with obstore: one request per object. Paths begin with the bucket, as pyarrow's do."""

    def __init__(self, files: fs.FileSystem, url: str) -> None:
        """`url`: the URL with which pyarrow opened `files`. Raises MissingPackage, TargetError."""
        parts = urlsplit(url)
        self._url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2] if files.type_name == 's3' else parts.netloc}"
        try:
            import obstore  # noqa: PLC0415  only for object stores
            from obstore.exceptions import BaseError  # noqa: PLC0415
            from obstore.store import from_url  # noqa: PLC0415
        except ImportError:
            raise MissingPackage(
                f"{self._url}: object stores require the package obstore (for conditional writes): "
                "pip install 'headrace-appliance[object-store]'"
            ) from None
        options: dict[str, Any] = {"client_options": {"timeout": _REQUEST_S, "allow_http": True}}
        if files.type_name == "s3":
            options |= _with_credentials(dict(s3_options(files, url)))
        try:
            self._store = from_url(self._url, **options)
        except (BaseError, ValueError) as error:
            raise TargetError(f"{self._url}: {_first_line(error)}") from None
        self._obstore = obstore
        self._error = BaseError

    def create(self, path: str, data: bytes) -> bool:
        """See `Create`."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError  # noqa: PLC0415

        name = _in_bucket(path)
        try:
            self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except self._error as error:
            raise TargetError(f"{self._url}/{name}: {_first_line(error)}") from None
        return True

    def write(self, path: str, data: bytes) -> None:
        """Create or replace an object."""
        name = _in_bucket(path)
        try:
            self._obstore.put(self._store, name, data, use_multipart=False)
        except self._error as error:
            raise TargetError(f"{self._url}/{name}: {_first_line(error)}") from None

    def read(self, path: str) -> bytes | None:
        """Read an object; None if it does not exist. Pyarrow would request its size first, and fail if it is replaced meanwhile."""
        name = _in_bucket(path)
        try:
            return bytes(self._obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            return None
        except self._error as error:
            raise TargetError(f"{self._url}/{name}: {_first_line(error)}") from None


def _in_bucket(path: str) -> str:
    return path.partition("/")[2]


def s3_options(files: fs.FileSystem, url: str) -> dict[str, str]:
    """The options in an S3 URL, and those that pyarrow finds by itself, with obstore's names."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    options = {"region": query.get("region") or files.region}
    if "endpoint_override" in query:
        endpoint = query["endpoint_override"]
        options["endpoint"] = endpoint if "://" in endpoint else f"{query.get('scheme', 'https')}://{endpoint}"
    if parts.username:
        options["access_key_id"] = unquote(parts.username)
        options["secret_access_key"] = unquote(parts.password or "")
    return options


def _with_credentials(options: dict[str, Any]) -> dict[str, Any]:
    if "access_key_id" not in options and "AWS_ACCESS_KEY_ID" not in os.environ and importlib.util.find_spec("boto3"):
        # Unlike obstore, pyarrow reads ~/.aws, with profiles and single sign-on.
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415

        try:
            options["credential_provider"] = Boto3CredentialProvider()
        except ValueError:
            pass  # it has found none; obstore may find some, from the machine's metadata
    return options


def _creator_of_fsspec(files: Any) -> Create:
    def create(path: str, data: bytes) -> bool:
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
        try:
            with files.open(path, "xb") as file:
                file.write(data)
        except FileExistsError:
            return False
        except (NotImplementedError, ValueError) as error:
            raise TargetError(
                f"{path}: this file system cannot create files exclusively, so two runs could write at once; "
                f"export to another target ({_first_line(error)})"
            ) from None
        return True

    return create


def _creator_by_rename(files: fs.FileSystem) -> Create:
    def create(path: str, data: bytes) -> bool:
        files.create_dir(path.rpartition("/")[0], recursive=True)
        temporary = f"{path}.{secrets.token_hex(4)}{UNFINISHED}"
        with files.open_output_stream(temporary) as file:
            file.write(data)
        if files.get_file_info(path).type == fs.FileType.NotFound:
            try:
                files.move(temporary, path)
                return True
            except OSError:
                if files.get_file_info(path).type == fs.FileType.NotFound:
                    raise
        files.delete_file(temporary)
        return False

    return create


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
