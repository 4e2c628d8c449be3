"""The sandboxed process that runs one filter function.

    python -I -c '…worker.main(fd, memory)'      fd: a listening Unix socket, on which the broker calls (launch.py)

It is started again, not forked: nothing of the appliance's memory or descriptors is in it. It waits for the broker's call, hands over a
descriptor of itself (by which the broker kills it when it overruns), shuts itself in, and only then takes the function's source. It
ends when the broker hangs up.

    def wants(message):                 # a headrace.model.message.MessageExt
        return message.properties.get("city") == "Rome" and len(message.body) > 100
"""

# What functions may import: nothing can be read any more when they ask for it.
import base64  # noqa: F401
import datetime  # noqa: F401, ICN001
import decimal  # noqa: F401
import fractions  # noqa: F401
import functools  # noqa: F401
import hashlib  # noqa: F401
import itertools  # noqa: F401
import json
import math  # noqa: F401
import os
import re  # noqa: F401
import socket
import string  # noqa: F401
import types
import zlib  # noqa: F401
from collections.abc import Callable
from typing import Any, NoReturn

from headrace.model.message import MessageExt
from headrace.protocol.record import decode_records
from store.filter.python.sandbox import SandboxUnavailable, enter
from store.filter.python.wire import FAILED, HEAD, LOAD, MATCH, NO, REASON_MAX, YES, frame

_STANDARD = 3  # descriptors of standard input, output and error
_READ_BYTES = 1 << 16


def main(listening_fd: int, memory_bytes: int) -> None:
    """Serves one connection, then ends the process. Raises OSError."""
    with socket.socket(fileno=listening_fd) as listening:
        connection, _ = listening.accept()
    fd = connection.fileno()
    handle = os.pidfd_open(os.getpid())
    socket.send_fds(connection, [b"R"], [handle])
    _keep_only(fd)
    json.loads("[]")  # whatever is imported at the first use must be imported now
    try:
        enter(memory_bytes)
    except SandboxUnavailable as error:
        _refuse(fd, f"filter functions cannot run on this machine: {error}")
    _serve(fd)
    # Not `sys.exit`: what the function has left behind is not asked.
    os._exit(0)


def _keep_only(fd: int) -> None:
    """Closes all descriptors but one; the standard ones lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(_STANDARD):
        os.dup2(nowhere, standard)
    os.closerange(_STANDARD, fd)
    os.closerange(fd + 1, os.sysconf("SC_OPEN_MAX"))


def _refuse(fd: int, reason: str) -> NoReturn:
    """Answers the source, unread, with the reason. (A connection closed before it was read would lose the answer.)"""
    head = _read(fd, HEAD.size)
    if head is not None and _read(fd, HEAD.unpack(head)[0]) is not None:
        _write(fd, frame(LOAD, reason.encode()[:REASON_MAX]))
    os._exit(1)


def _serve(fd: int) -> None:
    wants: Callable[[MessageExt], Any] | None = None
    while True:
        head = _read(fd, HEAD.size)
        if head is None:
            return
        length, kind = HEAD.unpack(head)
        rest = _read(fd, length)
        if rest is None:
            return
        if kind == LOAD:
            wants, reason = _load(rest)
            _write(fd, frame(LOAD, reason))
        elif kind == MATCH and wants is not None:
            _write(fd, frame(MATCH, _match(wants, rest)))
        else:
            return


def _load(source: bytes) -> tuple[Callable[[MessageExt], Any] | None, bytes]:
    """(the function, nothing), or (None, what is wrong)."""
    module = types.ModuleType("filter")
    try:
        exec(compile(source, "filter", "exec"), module.__dict__)  # noqa: S102  (this process is there for that)
    except BaseException as error:  # noqa: BLE001  (foreign code: whatever it raises is its answer)
        return None, _told(error)
    wants = module.__dict__.get("wants")
    if not callable(wants):
        return None, b"it defines no function wants(message)"
    return wants, b""


def _match(wants: Callable[[MessageExt], Any], records: bytes) -> bytes:
    answers = bytearray()
    reason = b""
    for message in decode_records(records, inflate=True):
        try:
            answer = wants(message)
        except BaseException as error:  # noqa: BLE001  (foreign code: whatever it raises is its answer)
            answer = None
            reason = reason or _told(error)
        else:
            if not isinstance(answer, bool):
                reason = reason or f"it returned {type(answer).__name__}, not True or False".encode()[:REASON_MAX]
        answers.append(YES if answer is True else NO if answer is False else FAILED)
    return bytes(answers) + reason


def _told(error: BaseException) -> bytes:
    """The error's name and text, and the function's line in which it was raised."""
    line = ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "filter":
            line = f" (line {trace.tb_lineno})"
        trace = trace.tb_next
    try:
        text = f"{type(error).__name__}: {error}{line}"
    except BaseException:  # noqa: BLE001  (its __str__ is foreign code too)
        text = f"an error without a text{line}"
    return text.encode(errors="replace")[:REASON_MAX]


def _read(fd: int, length: int) -> bytes | None:
    """So many bytes; None if the broker has hung up."""
    data = bytearray()
    while len(data) < length:
        piece = os.read(fd, min(length - len(data), _READ_BYTES))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
