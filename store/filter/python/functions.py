"""The operator's filter functions: files `<name>.py` in `config/filters/`.

Written by `headrace filter`, read by the broker, which looks whether a file has changed before it uses it. A file is replaced whole, so a
reader finds one version or the other. A name comes from clients and becomes a file's name: `is_name` is asked first, always.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

FOLDER: Final = "filters"
"""The folder's name under `config/`."""

REPORT: Final = "pythonFilters.json"
"""The file in `config/` in which the broker says how the functions perform."""

SOURCE_MAX: Final = 256 << 10  # limit: bytes of a function's source; one that needs more is a program

_SUFFIX: Final = ".py"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class FilterFunction(Struct, frozen=True):
    """A function as its file has it. `version` differs for each file that was ever put under the name, the same text included."""

    name: str
    source: str
    version: str


class BadFunctionFile(Exception):  # noqa: N818  (it says what is wrong)
    """The file cannot be a function's: too long, or no text. Its text says so in one line."""


def is_name(name: str) -> bool:
    """Whether a function may be called so: letters, digits, `_` and `-`, a letter first, 64 at most."""
    return _NAME.fullmatch(name) is not None


class FunctionFolder:
    """Finds and replaces the files. `path` need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        """The functions that there are, in the order of the alphabet. Raises OSError."""
        try:
            found = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted(name for file in found if file.endswith(_SUFFIX) and is_name(name := file.removesuffix(_SUFFIX)))

    def version(self, name: str) -> str | None:
        """What tells one version of a function from another, a system call; None: there is none of this name. Raises OSError."""
        if not is_name(name):
            return None
        try:
            found = os.stat(self._file(name))
        except FileNotFoundError:
            return None
        return _version(found)

    def find(self, name: str) -> FilterFunction | None:
        """The function of this name. Raises BadFunctionFile, OSError."""
        if not is_name(name):
            return None
        try:
            with open(self._file(name), "rb") as file:
                source = decode_source(file.read(SOURCE_MAX + 1))
                return FilterFunction(name, source, _version(os.fstat(file.fileno())))
        except FileNotFoundError:
            return None

    def put(self, name: str, source: str) -> None:
        """Puts a function there, in place of what was there. Raises ValueError for a name that is none, OSError."""
        if not is_name(name):
            raise ValueError(
                f"invalid function name {name!r}: use letters, digits, _ and -, starting with a letter, 64 characters at most"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self._file(name).with_suffix(".tmp")
        temporary.unlink(missing_ok=True)  # one that a kill left, or a link: nothing is written through it
        with temporary.open("xb") as file:
            file.write(source.encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._file(name))

    def remove(self, name: str) -> bool:
        """Takes a function away. Returns whether it was there. Raises OSError."""
        if not is_name(name):
            return False
        try:
            self._file(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def _file(self, name: str) -> Path:
        return self.path / (name + _SUFFIX)


def decode_source(data: bytes) -> str:
    """A function's source out of its file's bytes. Raises BadFunctionFile."""
    if len(data) > SOURCE_MAX:
        raise BadFunctionFile(f"larger than {SOURCE_MAX >> 10} KiB; shorten it")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadFunctionFile(f"not UTF-8 (byte {error.start})") from None


def read_report(path: Path) -> dict[str, dict[str, Any]]:
    """What the broker has written last of each function (`REPORT`): the fields of its `Account`, and `worker`; nothing if unreadable."""
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {name: one for name, one in said.items() if isinstance(one, dict) and isinstance(one.get("version"), str)}


def _version(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}-{status.st_ino}"
