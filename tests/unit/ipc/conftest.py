"""Real processes and real segments for the tests of shared memory."""

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipc.instance import Instance

ROWS = 64


class Child:
    """A forked process. It exits with 0 if its function returns, and with 1 if it raises."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.ended = False
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException:  # noqa: BLE001  (the child's outermost frame)
                traceback.print_exc()
            finally:
                os._exit(code)

    def kill(self) -> None:
        """Kills it with SIGKILL and waits until it is gone."""
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.ended = True

    def wait(self) -> int:
        """Its exit code."""
        _, status = os.waitpid(self.pid, 0)
        self.ended = True
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def fork() -> Iterator[Callable[[Callable[[], object]], Child]]:
    children: list[Child] = []

    def start(work: Callable[[], object]) -> Child:
        children.append(Child(work))
        return children[-1]

    yield start
    for child in children:
        child.kill()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    def wait_for(condition: Callable[[], object], within_s: float = 60) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, "the condition did not become true"
            os.sched_yield()

    return wait_for


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    made = Instance.create(tmp_path, queue_table_capacity=ROWS)
    yield made
    made.unlink()
    made.close()
