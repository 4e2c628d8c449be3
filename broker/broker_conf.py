"""BrokerConf: sets keys in the operator's `broker.conf` and leaves every other line as it is.

The file belongs to the operator: comments, order and unknown keys are kept. It is replaced atomically by rename, with its permissions.
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from headrace.protocol.bodies.properties_text import decode_properties_text

_LINE_END = re.compile(r"\r\n|\r|\n")


class BrokerConf:
    """One broker.conf that exists."""

    def __init__(self, path: Path) -> None:
        # The file behind a link is replaced, not the link.
        self._path = path.resolve()

    def set(self, texts: Mapping[str, str]) -> None:
        """Sets these keys, durably. Raises OSError; the file is then unchanged."""
        changed = with_values(self._path.read_text(encoding="utf-8"), texts)
        temporary = self._path.with_name(self._path.name + ".tmp")
        try:
            temporary.unlink(missing_ok=True)  # left by a kill, or a symbolic link: nothing is written through it
            with temporary.open("x", encoding="utf-8") as file:
                file.write(changed)
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(self._path, temporary)
            os.replace(temporary, self._path)
        finally:
            temporary.unlink(missing_ok=True)


def with_values(text: str, texts: Mapping[str, str]) -> str:
    """The properties text with these values: lines of these keys replaced where they stand, keys that it lacks added at the end."""
    left = dict(texts)
    lines: list[str] = []
    # Not splitlines, which also ends lines at characters that a value may contain.
    found = _LINE_END.split(text)
    pieces = iter(found if found[-1] else found[:-1])
    for piece in pieces:
        whole = [piece]
        while _is_continued(whole[-1]) and (following := next(pieces, None)) is not None:
            whole.append(following)
        key = next(iter(decode_properties_text("\n".join(whole))), None)
        if key is not None and key in texts:
            left.pop(key, None)
            lines.append(f"{key}={_escaped(texts[key])}")
        else:
            lines.extend(whole)
    lines.extend(f"{key}={_escaped(value)}" for key, value in left.items())
    return "".join(f"{line}\n" for line in lines)


def _is_continued(line: str) -> bool:
    """Whether the next line belongs to this one: it ends in a backslash that no other protects, and is no comment."""
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1 and line.lstrip(" \t\f")[:1] not in ("#", "!")


def _escaped(value: str) -> str:
    """The value as a properties file must have it, so that reading it gives the same."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped[:1] in (" ", "\t", "\f") else escaped
