"""The logger: the one process that writes log files. Woken by records, it writes what came and waits again.

It is started first and stopped last. Killed, it loses nothing: records wait in the socket for its successor. When the
supervisor is gone it goes on until every other process has closed its end, so that the last words are kept.

It must never log through the channel itself: it would talk to its own ear.
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
from appliance.log_channel import LogChannel, PacketHandler
from appliance.log_line import LineFormatter
from appliance.paths import AppliancePaths
from ipc.role_context import ApplianceRoleContext

_WAIT_MS: Final = 500
_BEAT_EVERY_RECORDS: Final = 256
_SAY_EVERY_S: Final = 60.0


def run(context: ApplianceRoleContext, channel: LogChannel, config: ApplianceConfig, paths: AppliancePaths) -> None:
    """Carry records from the channel to the log file and standard error until told to stop and nothing waits."""
    supervisor = os.getppid()
    orphaned = False
    # order: its own copy of the sending end is closed first, or the end of the channel would never be seen.
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
                # The supervisor is gone and cannot say who else is: the end of the channel will.
                orphaned = True
                poll.unregister(context.stop_fd)
            poll.poll(_WAIT_MS)
    except EOFError:
        return
    finally:
        handler.close()


class _LogFile(RotatingFileHandler):
    """The log file. When it cannot be written (a full disk) that is said on standard error, now and then."""

    _said_at = -math.inf

    def _open(self) -> TextIOWrapper:
        fd = process.open_own_file(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return TextIOWrapper(os.fdopen(fd, "ab"), encoding=self.encoding, errors=self.errors)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  logging's signature
        """Called in the handling of an exception from writing `record`, which is lost."""
        if time.monotonic() - self._said_at >= _SAY_EVERY_S:
            self._said_at = time.monotonic()
            with contextlib.suppress(OSError):
                sys.stderr.write(f"headrace: logger: {self.baseFilename}: {sys.exception()}\n")
                sys.stderr.flush()


class LogOutput(logging.Handler):
    """Where lines go: all to the rotating file, from a level on to standard error too."""

    def __init__(self, config: ApplianceConfig, paths: AppliancePaths) -> None:
        super().__init__()
        self._file = _LogFile(
            paths.log_file, maxBytes=config.log_file_size, backupCount=config.log_file_count, encoding="utf-8"
        )
        as_json = config.log_format == "json"
        self._file.setFormatter(LineFormatter("json" if as_json else "text"))
        self._outputs: list[logging.Handler] = [self._file]
        if config.log_stderr_level != "none":
            stderr = logging.StreamHandler(sys.stderr)
            stderr.setLevel(config.log_stderr_level.upper())
            stderr.setFormatter(LineFormatter("json" if as_json else "text"))
            self._outputs.append(stderr)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's line wherever its level belongs."""
        for output in self._outputs:
            if record.levelno >= output.level:
                output.handle(record)

    def close(self) -> None:
        """Close the file; standard error stays open."""
        self._file.close()
        super().close()
