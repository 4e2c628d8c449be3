"""Formats a log record as one line, whatever it contains: `key=value` for people and grep, or a JSON object for machines.

::

    time=2026-01-31T09:30:00.123Z level=info role=flush pid=4711 logger=store.flush.daemon event="synced to 1073741824"
    {"time":"2026-01-31T09:30:00.123Z","level":"info","role":"flush","pid":4711,"logger":"…","event":"…"}

A traceback is in the field `trace`. Line ends are escaped.
"""

import json
import logging
import time
from typing import Final, Literal

LogFormat = Literal["text", "json"]

_NEEDS_QUOTES: Final = frozenset(' "=\\\n\r\t')


class LineFormatter(logging.Formatter):
    """Formats records for the log file and for standard error. The record's attribute `role` is its role."""

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__()
        self._format_fields = _as_json if log_format == "json" else _as_text

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, without a line end."""
        fields: dict[str, str | int] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "role": getattr(record, "role", "supervisor"),
            "pid": record.process or 0,
            "logger": record.name,
            "event": record.getMessage(),
        }
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        if trace:
            fields["trace"] = trace
        return self._format_fields(fields)


def _as_text(fields: dict[str, str | int]) -> str:
    return " ".join(f"{key}={_quote(value)}" for key, value in fields.items())


def _as_json(fields: dict[str, str | int]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _quote(value: str | int) -> str:
    text = str(value)
    if text and not _NEEDS_QUOTES.intersection(text) and text.isprintable():
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in quoted)
