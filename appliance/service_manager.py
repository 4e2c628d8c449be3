"""Notifies systemd of our state (Type=notify): one datagram to the socket that it names; does nothing without one."""

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Send `state`, such as `READY=1`. Errors are ignored."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as client:
        client.sendto(state.encode(), address)
