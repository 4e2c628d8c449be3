"""Wakeups: turns bells of other processes into checks of what they have published.

Dispatch, flush, ha and the housekeeper ring only a broker that asks for it (`asleep_broker`), and it asks only while
somebody waits: a held pull, an answer at the ack gate, a put without a file. Otherwise a busy log costs it nothing.
"""

import asyncio
from collections.abc import Callable

from ipc.bells import Bell
from ipc.control_block import ControlBlock


class Wakeups:
    """Turns rings into calls of `look`. `is_anyone_waiting()` says whether rings are wanted."""

    def __init__(
        self, bell: Bell, control: ControlBlock, is_anyone_waiting: Callable[[], bool], look: Callable[[], None]
    ) -> None:
        self._bell = bell
        self._control = control
        self._is_anyone_waiting = is_anyone_waiting
        self._look = look
        self._is_asking = False
        self._seen: tuple[int, ...] = ()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watches the bell."""
        loop.add_reader(self._bell.fd, self._rung)

    def detach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Asks no more."""
        loop.remove_reader(self._bell.fd)
        self._bell.woke()

    def ask(self) -> None:
        """Somebody has begun to wait: from now on be rung. Cheap where rings are asked for already."""
        if not self._is_asking and self._is_anyone_waiting():
            self._sleep()

    def look(self) -> None:
        """Looks now: after a ring, and by the clock as the net below."""
        self._bell.woke()
        self._is_asking = False
        self._seen = self._offsets()
        self._look()
        if self._is_anyone_waiting():
            self._sleep()

    def _rung(self) -> None:
        self._bell.drain()
        self.look()

    def _sleep(self) -> None:
        self._is_asking = True
        self._bell.prepare_sleep()
        # order: look again after asking, or what was published just before is slept through.
        while self._offsets() != self._seen:
            self._seen = self._offsets()
            self._look()
        if not self._is_anyone_waiting():
            self._is_asking = False
            self._bell.woke()

    def _offsets(self) -> tuple[int, ...]:
        control = self._control
        return (
            control.reput_offset,
            control.flushed_offset,
            control.push2slave_max_offset,
            control.slave_count,
            control.allocated_offset,
        )
