"""The logger: the only process that writes log files. It waits for records and writes them.

It is started first and stopped last. A kill loses no records: they wait in the socket for its successor. If the
supervisor has died, it continues until every other process has closed its end, so that the last records are kept.

It must never log through the channel itself, because it would receive its own records.
"""

import contextlib
import logging
import math
import os
import select
import sys
import time
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Final

from appliance import process
from appliance.config import ApplianceConfig
from appliance.journal import JournalHandler, is_journal
from appliance.log_channel import LogChannel, PacketHandler
from appliance.log_line import LineFormatter
from appliance.paths import AppliancePaths
from ipc.role_context import ApplianceRoleContext

_WAIT_MS: Final = 500
_BEAT_EVERY_RECORDS: Final = 256
_SAY_EVERY_S: Final = 60.0


def run(context: ApplianceRoleContext, channel: LogChannel, config: ApplianceConfig, paths: AppliancePaths) -> None:
    """Write records from the channel to the log file and standard error, until stopped and no record waits."""
    supervisor = os.getppid()
    orphaned = False
    # order: its own copy of the sending end is closed first, otherwise the end of the channel would never be detected.
    channel.sender.close()
    handler = PacketHandler(channel, "logger", LogOutput(config, paths))
    context.running()
    poll = select.poll()
    poll.register(channel.receiver, select.POLLIN)
    poll.register(context.stop_fd, select.POLLIN)
    try:
        while True:
            taken = 0
            while taken < _BEAT_EVERY_RECORDS and handler.receive():
                taken += 1
            context.beat()
            if taken:
                continue
            if context.take_stop_order() and not orphaned:
                if os.getppid() == supervisor:
                    return
                # The supervisor has died, so only the end of the channel shows when all others have ended.
                orphaned = True
                poll.unregister(context.stop_fd)
            poll.poll(_WAIT_MS)
    except EOFError:
        return
    finally:
        handler.close()


class _LogFile(RotatingFileHandler):
    """The log file. If it cannot be written (a full disk), this is reported on standard error, at limited intervals."""

    _said_at = -math.inf

    def _open(self) -> TextIOWrapper:
        fd = process.open_own_file(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return TextIOWrapper(os.fdopen(fd, "ab"), encoding=self.encoding, errors=self.errors)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  logging's signature
        """Called if writing `record` failed; the record is lost."""
        if time.monotonic() - self._said_at >= _SAY_EVERY_S:
            self._said_at = time.monotonic()
            with contextlib.suppress(OSError):
                sys.stderr.write(f"headrace: logger: {self.baseFilename}: {sys.exception()}\n")
                sys.stderr.flush()


class LogOutput(logging.Handler):
    """Outputs: all lines to the rotating file, those from a level upwards also to standard error, or to the journal if it reads that."""

    def __init__(self, config: ApplianceConfig, paths: AppliancePaths) -> None:
        super().__init__()
        self._file = _LogFile(
            paths.log_file, maxBytes=config.log_file_size, backupCount=config.log_file_count, encoding="utf-8"
        )
        as_json = config.log_format == "json"
        self._file.setFormatter(LineFormatter("json" if as_json else "text"))
        self._outputs: list[logging.Handler] = [self._file]
        if config.log_stderr_level != "none":
            to_journal = is_journal(sys.stderr)
            stderr = JournalHandler(sys.stderr) if to_journal else logging.StreamHandler(sys.stderr)
            stderr.setLevel(config.log_stderr_level.upper())
            stderr.setFormatter(LineFormatter("json" if as_json else "journal" if to_journal else "text"))
            self._outputs.append(stderr)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's line wherever its level belongs."""
        for output in self._outputs:
            if record.levelno >= output.level:
                output.handle(record)

    def close(self) -> None:
        """Close the file and the journal's socket; standard error stays open."""
        for output in self._outputs:
            output.close()
        super().close()
