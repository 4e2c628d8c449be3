"""Checks whether this machine can run the appliance now, before anything is forked or written.

Each check raises PreflightFailed with one line that names the problem and the remedy. Checks change nothing, except that missing
folders of the appliance are created. Roles check the same limits again; these checks exist for clear error messages.
"""

import contextlib
import errno
import os
import socket
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from appliance.errors import PreflightFailed
from appliance.paths import AppliancePaths, BrokerPaths

_FEWEST_OPEN_FILES: Final = 1_024


def make_folders(folders: Iterable[str | Path]) -> None:
    """Create missing folders of the appliance, and check that files can be created in them."""
    for folder in folders:
        try:
            os.makedirs(folder, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise PreflightFailed(_about_folder(os.fspath(folder), error)) from error


def check_links(folders: Iterable[str | Path]) -> None:
    """Check that no file in these folders is a symbolic link, because no role writes through one. Folders may be links."""
    for folder in folders:
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink() and not entry.is_dir():
                    raise PreflightFailed(
                        f"data folder: {entry.path} is a symbolic link, and the appliance does not write through symbolic links; "
                        f"replace it with the file itself, or remove it"
                    )


def check_layout(paths: AppliancePaths, brokers: Sequence[BrokerPaths]) -> None:
    """Check that there is no store which this configuration would ignore: the appliance would create a new, empty one."""
    used = {os.path.realpath(broker.store) for broker in brokers}
    if any(os.path.isdir(os.path.join(store, "commitlog")) for store in used):
        return
    for store in (paths.broker().store, *(paths.broker(name).store for name in sorted(os.listdir(paths.data)))):
        if os.path.isdir(os.path.join(store, "commitlog")) and os.path.realpath(store) not in used:
            raise PreflightFailed(
                f"data folder {paths.data} contains a store at {store} that no broker of this configuration uses; "
                f"use --config with the appliance.toml that lists its broker, or move the store to {brokers[0].store}"
            )


def _about_folder(folder: str, error: OSError) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space left to write to {folder}; free some space, or choose another data folder with --data"
        case errno.EEXIST | errno.ENOTDIR:
            return f"data folder: {folder} or one of its parents is a file, not a folder"
        case errno.EROFS:
            return f"data folder: {folder} is on a read-only file system"
        case errno.EACCES | errno.EPERM:
            return f"data folder: {folder} is not writable by user {os.geteuid()}; change its owner, or choose another folder with --data"
        case _:
            return (
                f"data folder: cannot create or write to {folder}: {error.strerror}; choose another folder with --data"
            )


def check_space(commit_log: Path, file_size_bytes: int) -> list[str]:
    """Check that a new store has room for its first CommitLog file. Returns warnings.

    A store with files may start on a full disk: it serves its messages and refuses writes.
    """
    if any(commit_log.iterdir()):
        return []
    space = os.statvfs(commit_log)
    free_bytes = space.f_bavail * space.f_frsize
    if free_bytes < file_size_bytes:
        raise PreflightFailed(
            f"not enough space: {commit_log} has {free_bytes:,} bytes free, and a CommitLog file needs {file_size_bytes:,}; "
            f"free some space, or set a smaller mappedFileSizeCommitLog (possible only while the store is empty)"
        )
    if free_bytes < 3 * file_size_bytes:
        return [f"{commit_log} has space for only {free_bytes // file_size_bytes} CommitLog files"]
    return []


def check_ports(host: str, ports: Mapping[int, str]) -> None:
    """Check that all of these ports can be bound; `ports` has the purpose of each."""
    taken: list[str] = []
    for port, what in ports.items():
        try:
            _bind(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                holder = _find_holder(port)
                taken.append(f"port {port} ({what}) is in use" + (f" by {holder}" if holder else ""))
            elif error.errno == errno.EACCES:
                raise PreflightFailed(
                    f"cannot bind port {port} ({what}): permission denied; use a port above 1023 or grant CAP_NET_BIND_SERVICE"
                ) from error
            else:
                raise PreflightFailed(
                    f"cannot listen on {host}:{port} ({what}): {error.strerror}; check --host"
                ) from error
    if taken:
        if len(taken) == 1:
            cure = "stop the program that uses it, or choose another port with --port or --nameserver-port"
        else:
            cure = "stop the programs that use these ports, or choose other ports with --port and --nameserver-port"
        raise PreflightFailed(f"{', '.join(taken)}; {cure}")


def _bind(host: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as trial:
        # As servers bind: a port with connections in TIME_WAIT is free.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind(address)
        trial.listen(1)


def _find_holder(port: int) -> str:
    """The process that listens on this port, if we may see it; called only for an error message."""
    import psutil  # noqa: PLC0415  slow to import, and needed only here

    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            is_it = connection.laddr and connection.laddr[1] == port and connection.status == psutil.CONN_LISTEN
            if is_it and connection.pid:
                return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    return ""


def check_open_files(limit: int) -> list[str]:
    """Check that there are enough file descriptors. Returns warnings."""
    if limit < _FEWEST_OPEN_FILES:
        raise PreflightFailed(f"the open file limit is {limit}; raise it to at least {_FEWEST_OPEN_FILES} (ulimit -n)")
    if limit < 10 * _FEWEST_OPEN_FILES:
        return [f"the open file limit is {limit}, enough for only a few thousand connections; raise it with ulimit -n"]
    return []
