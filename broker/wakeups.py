"""Wakeups: turns bells of other processes into checks of what they have published.

Dispatch, flush, ha and the housekeeper ring only a broker that asks for it, and it asks only while somebody waits for them:
dispatch while a pull is held (`asleep_pulls`), the others while an answer is at the ack gate or a put has no file (`asleep_broker`).
Otherwise a busy log costs it nothing. Both bells are one eventfd.

With SYNC_FLUSH or SYNC_MASTER each batch of answers passes through here, so this is a hot module (types in the `.pxd`).
"""

import asyncio
from collections.abc import Callable, Sequence

import cython

from ipc.bells import Bell
from ipc.control_block import ControlBlock
from ipc.control_layout import ALLOCATED_OFFSET, FLUSHED_OFFSET, PUSH2SLAVE_MAX_OFFSET, REPUT_OFFSET, SLAVE_COUNT

if not cython.compiled:
    from ipc.cells import load_cell

_REPUT_OFFSET = REPUT_OFFSET
_FLUSHED_OFFSET = FLUSHED_OFFSET
_PUSH2SLAVE_MAX_OFFSET = PUSH2SLAVE_MAX_OFFSET
_SLAVE_COUNT = SLAVE_COUNT
_ALLOCATED_OFFSET = ALLOCATED_OFFSET


def _nothing() -> None:
    pass


class Waiting:
    """Those who wait for one bell. `is_anyone()` says whether rings are wanted, `asked()` is called each time they have been asked for."""

    def __init__(self, bell: Bell, is_anyone: Callable[[], bool], asked: Callable[[], object] = _nothing) -> None:
        self.bell = bell
        self.is_anyone = is_anyone
        self.asked = asked
        self.is_asking = False


class Wakeups:
    """Turns rings into calls of `look`. All bells have the same eventfd."""

    def __init__(self, waiting: Sequence[Waiting], control: ControlBlock, look: Callable[[], None]) -> None:
        self._waiting = tuple(waiting)
        self._bell = waiting[0].bell
        self._control = control
        self._look = look
        self._seen: tuple[int, ...] | None = None
        self._ask_nobody()  # a killed predecessor may have asked

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watches the bells."""
        loop.add_reader(self._bell.fd, self._rung)

    def detach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Asks no more."""
        loop.remove_reader(self._bell.fd)
        self._ask_nobody()

    def ask(self) -> None:
        """Somebody has begun to wait: from now on be rung. Cheap where rings are asked for already."""
        for one in self._waiting:
            if not one.is_asking and one.is_anyone():
                self._sleep()
                return

    def look(self) -> None:
        """Looks now: after a ring, and by the clock as the net below. Nothing to do while nobody waits."""
        if not self._is_asking() and not self._is_anyone_waiting():
            return
        self._ask_nobody()
        self._seen = self._offsets()
        self._look()
        if self._is_anyone_waiting():
            self._sleep()

    def _rung(self) -> None:
        self._bell.drain()
        self.look()

    def _is_anyone_waiting(self) -> bool:
        for one in self._waiting:
            if one.is_anyone():
                return True
        return False

    def _is_asking(self) -> bool:
        for one in self._waiting:
            if one.is_asking:
                return True
        return False

    def _ask_nobody(self) -> None:
        for one in self._waiting:
            one.is_asking = False
            one.bell.woke()

    def _sleep(self) -> None:
        for one in self._waiting:
            if not one.is_asking and one.is_anyone():
                one.is_asking = True
                one.bell.prepare_sleep()
                one.asked()
        # order: look again after asking, or what was published just before is slept through.
        while self._offsets() != self._seen:
            self._seen = self._offsets()
            self._look()
        for one in self._waiting:
            if one.is_asking and not one.is_anyone():
                one.is_asking = False
                one.bell.woke()

    def _offsets(self) -> tuple[int, ...]:
        cells = self._control.cells
        return (
            load_cell(cells, _REPUT_OFFSET),
            load_cell(cells, _FLUSHED_OFFSET),
            load_cell(cells, _PUSH2SLAVE_MAX_OFFSET),
            load_cell(cells, _SLAVE_COUNT),
            load_cell(cells, _ALLOCATED_OFFSET),
        )
