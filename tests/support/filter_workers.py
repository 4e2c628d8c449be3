"""Filter workers without a supervisor: each is restarted when it ends, as the supervisor would do.

with FilterWorkers(tmp_path, 2) as workers:
    FilterFunctions(folder, workers.paths, …)
"""

import contextlib
import os
import socket
import subprocess
import threading
from pathlib import Path
from typing import Self

from store.filter.python import launch

MEMORY = 256 << 20


class FilterWorkers:
    """Real workers that listen at `paths`. `starts`: how often any was started."""

    def __init__(self, folder: Path, count: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.paths = [folder / f"filter-{number}.sock" for number in range(count)]
        self.starts = 0
        self.processes: dict[Path, subprocess.Popen[bytes]] = {}
        self._is_over = False
        for path in self.paths:
            self._start(path)
        self._keepers = [threading.Thread(target=self._keep, args=(path,), daemon=True) for path in self.paths]
        for keeper in self._keepers:
            keeper.start()

    def _start(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(path))
            listening.listen(1)
            command = launch.command(listening.fileno(), MEMORY)
            self.starts += 1
            self.processes[path] = subprocess.Popen(command, env=launch.environment(), pass_fds=[listening.fileno()])

    def _keep(self, path: Path) -> None:
        while True:
            self.processes[path].wait()
            if self._is_over:
                return
            self._start(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        while any(keeper.is_alive() for keeper in self._keepers):
            for process in list(self.processes.values()):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            for keeper in self._keepers:
                keeper.join(0.1)
