"""Telling systemd how far we are (Type=notify): one datagram to the socket that it names, and nothing without it."""

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Send `state`, such as `READY=1`. A manager that does not listen is no reason to fail."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as client:
        client.sendto(state.encode(), address)
