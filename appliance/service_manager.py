"""ServiceManager: reports the appliance's state to systemd (Type=notify); does nothing without a service manager.

Messages are datagrams to the socket that NOTIFY_SOCKET names::

    READY=1                 once, when clients can connect
    STATUS=TEXT             when the line changes, at most once per second unless health changes
    WATCHDOG=1              three times per WATCHDOG_USEC, while every role is healthy
    EXTEND_TIMEOUT_USEC=N   every few seconds while the appliance starts or stops and no role is silent: recovery may take long
    RELOADING=1             when a reload begins; READY=1 ends it
    STOPPING=1              once

What a full socket does not take is sent again in the next round. Other errors are ignored: the appliance runs without its service manager, too.
"""

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final

_STATUS_EVERY_MS: Final = 1_000
_EXTEND_EVERY_MS: Final = 5_000
_EXTENSION_MS: Final = 30_000
_WATCHDOG_PARTS: Final = 3  # a late round of the supervisor must not look like a missing one


class ServiceManager:
    """The service manager that started this process, if one did."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """`environment` has NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID as set by systemd."""
        self._address = _address_of(environment.get("NOTIFY_SOCKET", ""))
        self._watchdog_every_ms = _watchdog_ms(environment) // _WATCHDOG_PARTS
        self._watchdog_due_ms = 0
        self._status = ""
        self._status_due_ms = 0
        self._was_healthy = True
        self._extend_due_ms = 0
        self._unsent: list[str] = []
        """State changes that a full socket has not taken yet."""

    @property
    def is_present(self) -> bool:
        """Whether a service manager wants to be notified."""
        return self._address is not None

    def ready(self) -> None:
        """Clients can connect."""
        self._change("READY=1")

    def reloading(self, now_ms: int) -> None:
        """A reload of the configuration begins; `ready` ends it. `now_ms`: monotonic milliseconds."""
        self._change(f"RELOADING=1\nMONOTONIC_USEC={now_ms * 1000}")

    def stopping(self) -> None:
        """The appliance has begun to stop."""
        self._change("STOPPING=1")

    def report(self, now_ms: int, status: str, *, is_healthy: bool, is_changing: bool) -> None:
        """Called in every round of the supervisor. `is_changing`: the appliance is starting or stopping.

        `status` is a line for people. Times are monotonic milliseconds.
        """
        if self._unsent and not self._send(self._unsent):
            return
        self._unsent = []
        # Health counts before the limit: after the status of a silent role, WATCHDOG=1 follows only another status.
        is_due = now_ms >= self._status_due_ms or is_healthy != self._was_healthy
        if status != self._status and is_due and self._send([f"STATUS={status}"]):
            self._status, self._status_due_ms, self._was_healthy = status, now_ms + _STATUS_EVERY_MS, is_healthy
        if is_healthy and self._watchdog_every_ms and now_ms >= self._watchdog_due_ms and self._send(["WATCHDOG=1"]):
            self._watchdog_due_ms = now_ms + self._watchdog_every_ms
        extension = f"EXTEND_TIMEOUT_USEC={_EXTENSION_MS * 1000}"
        if is_healthy and is_changing and now_ms >= self._extend_due_ms and self._send([extension]):
            self._extend_due_ms = now_ms + _EXTEND_EVERY_MS

    def _change(self, state: str) -> None:
        self._unsent.append(state)
        if self._send(self._unsent):
            self._unsent = []

    def _send(self, lines: Sequence[str]) -> bool:
        """Send the lines as one message; False if the socket is full, because the supervisor waits for nobody."""
        if self._address is None:
            return True
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            try:
                client.sendto("\n".join(lines).encode(), self._address)
            except BlockingIOError:
                return False
        return True


def _address_of(text: str) -> str | None:
    if not text:
        return None
    return "\0" + text[1:] if text.startswith("@") else text  # an abstract socket


def _watchdog_ms(environment: Mapping[str, str]) -> int:
    """The watchdog's timeout for this process, 0 without one."""
    text = environment.get("WATCHDOG_USEC", "")
    is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(text) // 1000 if is_ours and text.isascii() and text.isdigit() else 0
