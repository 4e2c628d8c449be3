"""The broker's end of a filter worker: gives it a function, asks it which messages it wants, and kills it when it overruns.

One worker serves one function, so a function harms nobody but itself. What the worker says is checked: it runs foreign code. After
a failure the connection is closed and the worker gone; the supervisor starts another, which may be called again.
"""

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path
from typing import Self

from ipc.control_socket import socket_address
from store.filter.python.wire import FAILED, HEAD, LOAD, MATCH, REASON_MAX, YES, frame


class PythonFilterFailed(Exception):  # noqa: N818  (it says what happened)
    """The worker did not answer as it should. `reason` is for the operator, who knows the function by `name`."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the filter function {name} {reason}")
        self.name = name
        self.reason = reason


class NoWorker(PythonFilterFailed):
    """Nobody answered: not the function's fault."""


class PythonFilterWorker:
    """A worker with its function. Made by `call`; for one request after the other."""

    def __init__(self, name: str, pid_fd: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.last_error = ""
        """What the function did wrong last, for the operator."""
        self.messages_failed = 0
        """Over how many messages it has done something wrong."""
        self._pid_fd = pid_fd
        self._reader = reader
        self._writer = writer

    @classmethod
    async def call(cls, name: str, source: str, path: Path, start_s: float, load_s: float | None = None) -> Self:
        """Calls the worker that listens at `path`, and gives it the function.

        It may take `start_s` seconds to answer, and then `load_s` (as long, if not given) for the function's own lines. Raises NoWorker;
        PythonFilterFailed, for a function that cannot be used.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            async with asyncio.timeout(start_s):
                with socket_address(path) as address:
                    await asyncio.get_running_loop().sock_connect(connection, address)
                pid_fd = await _receive_handle(connection)
        except (OSError, TimeoutError) as error:
            connection.close()
            raise NoWorker(name, f"has no worker: {str(error) or 'it did not respond'}") from error
        except BaseException:
            connection.close()
            raise
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        worker = cls(name, pid_fd, reader, writer)
        reason = await worker._ask(LOAD, source.encode(), REASON_MAX, start_s if load_s is None else load_s)
        if reason:
            worker.close()
            raise PythonFilterFailed(name, f"cannot be used: {reason.decode(errors='replace')}")
        return worker

    async def match(self, records: list[bytes], deadline_s: float) -> list[bool]:
        """Which of these whole records the function wants; a message over which it fails is not wanted, and `last_error` says why.

        Raises PythonFilterFailed when it has taken longer than `deadline_s` for all of them, or has answered nonsense; it is dead then.
        """
        answer = await self._ask(MATCH, b"".join(records), len(records) + REASON_MAX, deadline_s)
        verdicts, reason = answer[: len(records)], answer[len(records) :]
        if len(verdicts) < len(records) or any(verdict > FAILED for verdict in verdicts):
            self._kill()
            raise PythonFilterFailed(self.name, "sent an invalid response and was killed")
        if reason:
            self.last_error = reason.decode(errors="replace")
        self.messages_failed += sum(verdict == FAILED for verdict in verdicts)
        return [verdict == YES for verdict in verdicts]

    def close(self) -> None:
        """Ends the worker."""
        self._kill()

    @property
    def is_dead(self) -> bool:
        """Whether it was ended, by `close`, after a failure, or by others while nobody asked it."""
        if self._reader.at_eof():
            self._kill()
        return self._pid_fd < 0

    async def _ask(self, kind: int, rest: bytes, answer_max: int, deadline_s: float) -> bytes:
        try:
            async with asyncio.timeout(deadline_s):
                self._writer.write(frame(kind, rest))
                await self._writer.drain()
                length, answered = HEAD.unpack(await self._reader.readexactly(HEAD.size))
                if answered != kind or length > answer_max:
                    self._kill()
                    raise PythonFilterFailed(self.name, "sent an invalid response and was killed")
                return await self._reader.readexactly(length)
        except TimeoutError:
            self._kill()
            raise PythonFilterFailed(self.name, f"took longer than {deadline_s:g} s and was killed") from None
        except (asyncio.IncompleteReadError, OSError) as error:
            self._kill()
            raise PythonFilterFailed(self.name, "ended its process") from error
        except asyncio.CancelledError:
            # Its answer, not read, would be taken for that to the next question.
            self._kill()
            raise

    def _kill(self) -> None:
        self._writer.close()
        if self._pid_fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pid_fd, signal.SIGKILL)
            os.close(self._pid_fd)
            self._pid_fd = -1


async def _receive_handle(connection: socket.socket) -> int:
    """The worker's descriptor of itself, with which it greets."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
    greeting, handles, _, _ = socket.recv_fds(connection, 1, 1)
    if greeting != b"R" or len(handles) != 1:
        for handle in handles:
            os.close(handle)
        raise OSError("it did not complete its handshake")
    return handles[0]
