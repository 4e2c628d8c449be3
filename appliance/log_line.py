"""Formats a log record as one line, whatever it contains: for people and grep, or as a JSON object for machines.

::

    2026-01-31T09:30:00.123Z warning supervisor[4711] appliance.role_supervisor: role died role=flush cause='killed by SIGKILL'
    {"time":"2026-01-31T09:30:00.123Z","level":"warning","role":"supervisor","pid":4711,"logger":"appliance.role_supervisor",
     "event":"role died","fields":{"role":"flush","cause":"killed by SIGKILL"}}

A message is an event followed by `key=value` pairs; values with spaces are in quotation marks. A JSON line has the pairs as `fields`, unless the message is
of another form: then all of it is the event. A traceback is in the field `trace`. Line ends are escaped.
A line for the journal is a text line without time and level, which the journal stores itself.
"""

import json
import logging
import re
import time
from typing import Final, Literal

LogFormat = Literal["text", "json", "journal"]

_PAIR: Final = r"""([A-Za-z_][\w.]*)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'"]*)"""
_EVENT_AND_PAIRS: Final = re.compile(rf"([^=]*?)((?: {_PAIR})+)")
_ONE_PAIR: Final = re.compile(_PAIR)


class LineFormatter(logging.Formatter):
    """Formats records for the log file, standard error and the journal. The record's attribute `role` is its role."""

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__()
        self._format_line = {"text": _as_text, "json": _as_json, "journal": _for_journal}[log_format]

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, without a line end."""
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        return self._format_line(record, record.getMessage(), trace)


def _time_of(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def role_of(record: logging.LogRecord) -> str:
    """The role that logged the record."""
    return getattr(record, "role", "supervisor")


def _as_text(record: logging.LogRecord, message: str, trace: str) -> str:
    return f"{_time_of(record)} {record.levelname.lower()} {_for_journal(record, message, trace)}"


def _for_journal(record: logging.LogRecord, message: str, trace: str) -> str:
    begin = f"{role_of(record)}[{record.process or 0}] {record.name}: "
    return begin + _printable(message) + (f' trace="{_printable(trace)}"' if trace else "")


def _as_json(record: logging.LogRecord, message: str, trace: str) -> str:
    found = _EVENT_AND_PAIRS.fullmatch(message)
    fields = {key: _unquoted(value) for key, value in _ONE_PAIR.findall(found[2])} if found else {}
    line = {
        "time": _time_of(record),
        "level": record.levelname.lower(),
        "role": role_of(record),
        "pid": record.process or 0,
        "logger": record.name,
        "event": found[1] if found else message,
    }
    if fields:
        line["fields"] = fields
    if trace:
        line["trace"] = trace
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def _unquoted(value: str) -> str:
    return value[1:-1] if value[:1] in {"'", '"'} else value


def _printable(text: str) -> str:
    """The text with everything that would end a line or change a terminal escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
