"""The broker's side of a filter worker: loads a function into it, requests which messages it wants, and kills it at its deadline.

A worker serves one function, so a function can affect only its own consumers. Responses are checked, because the worker runs foreign code.
After a failure the connection is closed and the worker killed; the supervisor starts another.
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
    """The worker failed. `reason` is for the operator, who knows the function as `name`."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the filter function {name} {reason}")
        self.name = name
        self.reason = reason


class NoWorker(PythonFilterFailed):
    """No worker responded; this is not a failure of the function."""


class PythonFilterWorker:
    """A worker with its function, created by `call`; one request at a time."""

    def __init__(self, name: str, pid_fd: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.last_error = ""
        """The function's last failure, for the operator."""
        self.messages_failed = 0
        """The number of messages on which it failed."""
        self._pid_fd = pid_fd
        self._reader = reader
        self._writer = writer

    @classmethod
    async def call(cls, name: str, source: str, path: Path, start_s: float, load_s: float | None = None) -> Self:
        """Connects to the worker that listens at `path`, and loads the function.

        The worker may take `start_s` seconds to start, and then `load_s` (by default the same) to load the function. Raises NoWorker;
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
            raise NoWorker(name, f"has no worker: {str(error) or 'the worker process did not respond'}") from error
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
        """Returns which of these complete records the function wants; a message on which it fails is not wanted, and `last_error` has the reason.

        Raises PythonFilterFailed if it takes longer than `deadline_s` for all of them or sends an invalid response; it is then killed.
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
        """Kills the worker."""
        self._kill()

    @property
    def is_dead(self) -> bool:
        """Whether it has ended: by `close`, after a failure, or killed while idle."""
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
            raise PythonFilterFailed(self.name, "crashed: its worker process exited") from error
        except asyncio.CancelledError:
            # Its unread response would be taken for that to the next request.
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
    """The pidfd of the worker, which it sends in its handshake."""
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
