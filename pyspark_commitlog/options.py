"""Options of the data source, set with `.option(NAME, VALUE)`; named as on the command line, in Spark's spelling.

path                what to read: a store's root, an appliance's data folder, or a folder of CommitLog files
topic               only these topics, separated by commas
includeSystem       include system topics (false)
from, to            where to begin and end: ISO time or physical offset (begin and end of the log; a stream has no end)
strict              damage fails the query instead of being skipped (false)
quarantine          return the damage, with the columns of the quarantine table, instead of messages (false)
rawBody             bodies as stored: compressed ones are not decompressed (false)
rawProperties       keep UNIQ_KEY, KEYS and TAGS in the map of properties (false)
columns             only these columns, separated by commas; a given schema has the same effect
broker, cluster     constant values of these columns ("broker", "")
workers             number of concurrent tasks that segments are cut for (cores of the driver's machine)
wholeSegments       never cut segments (false)
maxBytesPerTrigger  stream: maximum size of a micro-batch, such as 256m (everything available)
failOnDataLoss      stream: fail if records to be read next have been deleted (true)
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from spark_exporter.errors import ExportError
from spark_exporter.reading.range_scan import ScanOptions
from spark_exporter.reading.record_choice import RecordChoice
from spark_exporter.reading.schema import QUARANTINE, without_nulls

_NAMES: Final = (
    "path", "topic", "includeSystem", "from", "to", "strict", "quarantine", "rawBody", "rawProperties", "columns", "broker",
    "cluster", "workers", "wholeSegments", "maxBytesPerTrigger", "failOnDataLoss",
)  # fmt: skip
_UNITS: Final = {"k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the log: a physical offset, or a store time in ms."""

    offset: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed options. Picklable."""

    path: Path
    scan: ScanOptions
    schema: pa.Schema
    """Of the rows that Spark gets."""
    start: Place | None
    end: Place | None
    is_quarantine: bool
    workers: int
    whole_segments: bool
    max_bytes: int | None
    fail_on_data_loss: bool


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Parses Spark's options, whose names are case-insensitive. Raises ExportError for invalid ones."""
    said = {name.lower(): value for name, value in given.items()}
    known = {name.lower(): name for name in _NAMES}
    for name in said:
        if name not in known and "." not in name:
            raise ExportError(f"commitlog: unknown option {name}; the options are {', '.join(_NAMES)}")
    if not said.get("path"):
        raise ExportError("commitlog: no path given; use .load(PATH) with a store's folder")
    topics = _names(said.get("topic"))
    columns = _names(said.get("columns"))
    scan = ScanOptions(
        said.get("cluster", ""),
        said.get("broker", "broker"),
        RecordChoice(frozenset(topics) if topics else None, _flag(said, "includeSystem")),
        columns,
        inflate=not _flag(said, "rawBody"),
        all_properties=_flag(said, "rawProperties"),
        strict=_flag(said, "strict"),
    )
    size = said.get("maxbytespertrigger")
    is_quarantine = _flag(said, "quarantine")
    return ReadOptions(
        Path(said["path"].removeprefix("file:")),
        scan,
        without_nulls(QUARANTINE if is_quarantine else scan.schema),
        _place(said, "from"),
        _place(said, "to"),
        is_quarantine,
        _number("workers", said.get("workers") or str(os.cpu_count() or 1)),
        _flag(said, "wholeSegments"),
        None if size is None else _size(size),
        _flag(said, "failOnDataLoss", default=True),
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    return names or None


def _flag(said: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    value = said.get(name.lower())
    if value is None:
        return default
    if value.lower() not in {"true", "false"}:
        raise ExportError(f"commitlog: {name} must be true or false, not {value}")
    return value.lower() == "true"


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ExportError(f"commitlog: {name} must be a positive integer, not {text}")
    return int(text)


def _size(text: str) -> int:
    number, unit = (text[:-1], text[-1].lower()) if text[-1:].lower() in _UNITS else (text, "")
    return _number("maxBytesPerTrigger", number) << _UNITS.get(unit, 0)


def _place(said: Mapping[str, str], name: str) -> Place | None:
    text = said.get(name)
    if text is None:
        return None
    if text.isdecimal():
        return Place(offset=int(text))
    try:
        return Place(time_ms=int(datetime.fromisoformat(text).astimezone().timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ExportError(
            f"commitlog: {name} must be a physical offset or a time such as 2026-11-21T08:00, not {text}"
        ) from None
