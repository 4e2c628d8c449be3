"""The supervisor's control socket: one JSON object a line, over a Unix stream socket.

A client sends one line and reads one line before it sends another. The supervisor defines the objects; this module
transports them.
Only the appliance's user and group can access the socket.
"""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

from ipc.errors import NoAnswer, NobodyListens

MAX_LINE_BYTES = 1 << 20  # limit: a status of a thousand roles is a few hundred KiB; longer lines are errors or attacks
_MODE = 0o660
_BACKLOG = 128  # limit: twice the supervisor's maximum of clients
_RETRY_S = 0.01
_MAX_PATH_BYTES = 107  # sun_path of sockaddr_un, less its zero byte


def encode(message: dict[str, Any]) -> bytes:
    """One line. Characters that UTF-8 cannot encode, such as half a surrogate pair, are escaped."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The object in a line. Raises ValueError for anything else."""
    try:
        message = json.loads(line)
    except RecursionError:
        raise ValueError("not a JSON object: nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError(f"not a JSON object: {line[:80]!r}")  # noqa: TRY004  (of what a peer sent, not of a type here)
    return message


class LineReader:
    """Splits a stream into objects, however it arrives."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The complete objects. Raises ValueError for an invalid or too long line: close that stream."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise ValueError(f"line longer than {MAX_LINE_BYTES} bytes")
        return [decode(line) for line in lines if line.strip()]


def listen(path: str | os.PathLike[str]) -> socket.socket:
    """The supervisor's side, non-blocking. Replaces a socket left by a predecessor (the store is locked)."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with socket_address(path) as address:
            server.bind(address)
        os.chmod(path, _MODE)
        server.listen(_BACKLOG)
    except OSError:
        server.close()
        raise
    return server


def ask(path: str | os.PathLike[str], request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Send a request and wait for its answer. Raises NobodyListens, NoAnswer."""
    deadline = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as client:
        client.settimeout(timeout_s)
        try:
            with socket_address(path) as address:
                _connect(client, address, deadline)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NobodyListens(
                f"no supervisor is listening on {os.fspath(path)}; start the appliance with: headrace run"
            ) from None
        except PermissionError:
            raise NoAnswer(
                f"permission denied on control socket {os.fspath(path)}; run the command as the user that started the appliance"
            ) from None
        except OSError as error:
            raise NoAnswer(f"the supervisor at {os.fspath(path)} did not accept the connection: {error}") from error
        reader = LineReader()
        try:
            client.sendall(encode(request))
            while True:
                client.settimeout(max(0.001, deadline - time.monotonic()))
                data = client.recv(65_536)
                if not data:
                    raise NoAnswer(f"the supervisor at {os.fspath(path)} closed the connection without responding")
                for answer in reader.feed(data):
                    return answer
        except TimeoutError:
            raise NoAnswer(f"the supervisor at {os.fspath(path)} did not respond within {timeout_s:g} s") from None
        except ValueError as error:
            raise NoAnswer(f"the supervisor at {os.fspath(path)} sent an invalid response: {error}") from error
        except OSError as error:
            raise NoAnswer(f"the connection to the supervisor at {os.fspath(path)} failed: {error.strerror}") from error


def _connect(client: socket.socket, address: str, deadline: float) -> None:
    """Connect, and wait for room in the listener's queue, which a socket with a timeout does not do. Raises OSError."""
    while True:
        try:
            client.connect(address)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_S)


@contextlib.contextmanager
def socket_address(path: str | os.PathLike[str]) -> Iterator[str]:
    """A name for the socket that fits into an address: a path that is too long is replaced by one through its open folder. Raises OSError."""
    text = os.fspath(path)
    if len(os.fsencode(text)) <= _MAX_PATH_BYTES:
        yield text
        return
    folder, name = os.path.split(text)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)
