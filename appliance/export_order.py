"""ExportOrder: what an export is to read and where it writes, as the console requests it over the control socket.

A request chooses among names. Folders, stores and options come from the configuration, so a request cannot name a path, an option of the
command or a program.
"""

import re
from typing import Any, Final, Self

from msgspec import Struct
from msgspec.structs import asdict

from appliance.errors import ExportRefused
from headrace.model.names import MAX_GROUP_LENGTH

FORMATS: Final = ("parquet", "iceberg", "delta")
_TARGET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOPIC: Final = re.compile(rf"[%|a-zA-Z0-9_-]{{1,{MAX_GROUP_LENGTH + 10}}}")  # retry topics: a prefix and a group
_MOST_TOPICS: Final = 100  # limit: they are part of a command line, and of every answer about the run
_LATEST_MS: Final = 253_402_300_799_000  # the end of the year 9999
_KEYS: Final = frozenset({"target", "format", "topics", "broker", "from_ms", "to_ms"})


class ExportOrder(Struct, frozen=True):
    """A checked request. Times are store timestamps in ms since 1970; None: no limit."""

    target: str
    """A folder in the folder of exports: a name, never a path."""
    format: str
    topics: tuple[str, ...]
    """Empty: all."""
    broker: str
    """The broker's name in the appliance; empty for the only one."""
    from_ms: int | None
    to_ms: int | None

    @classmethod
    def from_request(cls, request: dict[str, Any]) -> Self:
        """The order in a request. Raises ExportRefused."""
        unknown = sorted(set(request) - _KEYS - {"command"})
        if unknown:
            raise ExportRefused(f"unknown field {unknown[0][:80]!r}")
        target, kind = request.get("target"), request.get("format", FORMATS[0])
        if not isinstance(target, str) or not _TARGET.fullmatch(target):
            raise ExportRefused(
                f"target {str(target)[:80]!r} is not a folder name: use up to 64 letters, digits, '.', '_' or '-', starting with a letter or digit"
            )
        if kind not in FORMATS:
            raise ExportRefused(f"format {str(kind)[:80]!r} is not one of {', '.join(FORMATS)}")
        broker = request.get("broker", "")
        if not isinstance(broker, str):
            raise ExportRefused("broker: expected a string, the broker's name")
        from_ms, to_ms = _time(request, "from_ms"), _time(request, "to_ms")
        if from_ms is not None and to_ms is not None and from_ms >= to_ms:
            raise ExportRefused("the period ends before it begins; swap the two times")
        return cls(target, kind, _topics(request.get("topics", [])), broker, from_ms, to_ms)

    def as_json(self) -> dict[str, Any]:
        """For answers about the run."""
        return asdict(self)


def _topics(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > _MOST_TOPICS:
        raise ExportRefused(f"topics: expected a list of at most {_MOST_TOPICS} names")
    for topic in given:
        if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
            raise ExportRefused(f"topic {str(topic)[:80]!r} is not a valid name")
    return tuple(dict.fromkeys(given))


def _time(request: dict[str, Any], key: str) -> int | None:
    value = request.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LATEST_MS:
        raise ExportRefused(f"{key}: expected milliseconds since 1970, up to the year 9999")
    return value
