"""Carries log records from every process to the logger, as packets through a pair of sockets.

The supervisor creates the pair once and keeps both ends, so it survives a kill of any process, including the logger; sent
records wait in it. A packet is one complete record. No lock is used, only the logger reads, and sending never
blocks: records that do not fit are counted, and the count is sent with the next record that does.

`multiprocessing-logging` provides the handler, which prepares records for sending and passes received
ones to a sub-handler in the logger. Its queue, a pipe with a semaphore that a killed child would keep for ever, is replaced
by `PacketQueue`; its thread is replaced by the logger's main loop (`log_daemon`).
"""

import logging
import pickle
import socket
from queue import Empty
from typing import Any, Final

from multiprocessing_logging import MultiProcessingHandler

MAX_TEXT: Final = 32_768  # limit: characters of a message or traceback; a packet must fit into a socket's buffer
_BUFFER_BYTES: Final = 4 << 20  # limit: about 10,000 records while the logger is restarted
_MAX_PACKET_BYTES: Final = 1 << 18
_PICKLE_PROTOCOL: Final = 5


class LogChannel:
    """The pair of sockets: `sender` is inherited by all processes, only the logger reads `receiver`."""

    def __init__(self) -> None:
        """Make the pair. Raises OSError."""
        self.sender, self.receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sender.setblocking(False)
        self.receiver.setblocking(False)
        # Without the right to exceed the system's limit, the plain option sets the maximum.
        for option in (socket.SO_SNDBUF, getattr(socket, "SO_SNDBUFFORCE", 32)):
            try:
                self.sender.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
            except PermissionError:
                continue

    def close(self) -> None:
        """Close both ends in this process."""
        self.sender.close()
        self.receiver.close()


class PacketQueue:
    """The handler's queue: `put_nowait` for senders, `get` for the logger."""

    def __init__(self, channel: LogChannel) -> None:
        self._sender = channel.sender
        self._receiver = channel.receiver
        self.dropped = 0

    def put_nowait(self, record: logging.LogRecord) -> None:
        """Send a record; count it as dropped when the socket is full."""
        values: dict[str, Any] = {key: value for key, value in record.__dict__.items() if _travels(value)}
        values["msg"] = _cut(str(record.msg))
        if record.exc_text:
            values["exc_text"] = _cut(record.exc_text)
        values["dropped_before"] = self.dropped
        try:
            self._sender.send(pickle.dumps(values, _PICKLE_PROTOCOL))
        except OSError:  # full (BlockingIOError), or a record with extras too large for a packet
            self.dropped += 1
        else:
            self.dropped = 0

    def get_nowait(self) -> logging.LogRecord:
        """The next record. Raises Empty if there is none, EOFError if no process is left that could send one."""
        try:
            packet = self._receiver.recv(_MAX_PACKET_BYTES)
        except BlockingIOError:
            raise Empty from None
        if not packet:
            raise EOFError
        return logging.makeLogRecord(pickle.loads(packet))  # noqa: S301  only our own processes hold the other end


class PacketHandler(MultiProcessingHandler):
    """The handler of each process's root logger. It adds the sender's role to the record."""

    def __init__(self, channel: LogChannel, role: str, sub_handler: logging.Handler) -> None:
        # Not MultiProcessingHandler.__init__, which would create the queue and the thread that this class replaces.
        logging.Handler.__init__(self)
        self.sub_handler = sub_handler
        self.queue: PacketQueue = PacketQueue(channel)  # type: ignore[assignment]  # it stands in for that queue
        self.role = role
        self._is_closed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record to the logger."""
        record.role = self.role
        super().emit(record)  # type: ignore[no-untyped-call]  # the library ships no types

    def receive(self) -> bool:
        """In the logger: pass one waiting record to the sub-handler. False if none waits; EOFError at the end."""
        try:
            record = self.queue.get_nowait()
        except Empty:
            return False
        dropped = getattr(record, "dropped_before", 0)
        if dropped:
            self.sub_handler.handle(_about_dropped(record, dropped))
        self.sub_handler.handle(record)
        return True

    def close(self) -> None:
        """Close the sub-handler; the channel belongs to the supervisor."""
        if not self._is_closed:
            self._is_closed = True
            self.sub_handler.close()
            logging.Handler.close(self)


def log_to(channel: LogChannel, role: str, level: str) -> None:
    """Send log records of this process to the logger, as `role`. Called once in each process, after its fork."""
    root = logging.getLogger()
    root.handlers = [PacketHandler(channel, role, logging.NullHandler())]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)


def _travels(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} more characters)"


def _about_dropped(record: logging.LogRecord, dropped: int) -> logging.LogRecord:
    about = logging.makeLogRecord(record.__dict__)
    about.name, about.levelno, about.levelname, about.exc_text = __name__, logging.WARNING, "WARNING", None
    about.msg = f"log records dropped count={dropped} reason='the logger did not keep up'"
    return about
