"""Log records and messages in systemd's journal: with their priority, role and logger.

A record is one datagram of lines `FIELD=value`, the journal's native protocol::

    MESSAGE=broker[4711] broker.sending: ...
    PRIORITY=4
    SYSLOG_IDENTIFIER=headrace
    ROLE=broker
    LOGGER=broker.sending
"""

import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from appliance.log_line import role_of

_ADDRESS: Final = "/run/systemd/journal/socket"
_PRIORITIES: Final = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}


def is_journal(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the journal reads what is written to `stream`. systemd sets JOURNAL_STREAM to the device and the inode of its stream."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or not a file
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def priority_prefix(stream: TextIO, level: str) -> str:
    """What gives a line on `stream` the priority of a level, such as "error"; empty if the journal does not read it."""
    return f"<{_PRIORITIES[level]}>" if is_journal(stream) else ""


class JournalHandler(logging.StreamHandler[TextIO]):
    """Sends records to the journal. It never waits: what the socket does not take is written to `stream`, which the journal also reads."""

    def __init__(self, stream: TextIO, address: str = _ADDRESS, environment: Mapping[str, str] = os.environ) -> None:
        """Open the socket. Raises OSError."""
        super().__init__(stream)
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        # The units' SyslogIdentifier, which applies to streams only: the name of the data folder, which an instance has its own of.
        self._identifier = Path(environment.get("STATE_DIRECTORY") or "headrace").name

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record."""
        fields = {
            "MESSAGE": self.format(record),
            "PRIORITY": _PRIORITIES.get(record.levelname.lower(), _PRIORITIES["debug"]),
            "SYSLOG_IDENTIFIER": self._identifier,
            "ROLE": role_of(record),
            "LOGGER": record.name,
        }
        # No value contains a line end: the formatter escapes them, and the other values are names of ours.
        entry = "".join(f"{name}={value}\n" for name, value in fields.items())
        try:
            self._socket.sendto(entry.encode(errors="backslashreplace"), self._address)
        except OSError:  # full, too long for a datagram, or no journal
            super().emit(record)

    def close(self) -> None:
        """Close the socket; the stream stays open."""
        self._socket.close()
        super().close()
