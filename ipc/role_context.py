"""What a role is given to run with: its name, its broker's shared objects, its bell, and the order to stop.

`RoleContext` is for the roles of a broker. The appliance's own roles, which have no store, get an `ApplianceRoleContext`.

Made by the supervisor's child after the fork and handed to the role's `run(context, …)`. The stop signal's handler writes a byte to a
pipe and nothing else; the role takes the order with `take_stop_order`, and its loop ends when its work is done.
A plain loop waits in `wait` or `nap` and nowhere else, and these beat for it. What may take longer than a second is
announced with `long_call`, or the supervisor takes the silence for a hang.
"""

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ipc.bells import Bell
from ipc.control_block import ControlBlock
from ipc.counter_page import CounterPage
from ipc.current_client import CurrentClient
from ipc.health_page import monotonic_ms
from ipc.instance import Instance
from ipc.role_pages import RolePages

MISSED_RINGS = "missed_rings"
"""The counter of waits that ended by time-out with work to do: the net below the bells was used. Should stay 0."""

_BEAT_MS = 250  # limit: some beats to a heartbeatTimeout, a store in shared memory each
_LONGEST_POLL_MS = 1000  # limit: a waiting role beats at least that often
_LAST_LOOK_MS = 50  # limit: how soon a role that was told to stop, and may not yet, looks again whether it may
_GRACE_MS = 20  # limit: a ringer that has published may be put aside for some ticks before it rings


class ApplianceRoleContext:
    """What every role has: signs of life, the order to stop, and waiting. For the role's main loop only, not for threads."""

    def __init__(
        self,
        name: str,
        pages: RolePages,
        bell: Bell | None,
        stop_fd: int,
        may_stop: Callable[[], bool] = lambda: True,
    ) -> None:
        """`bell` is None for a role that nobody rings. `stop_fd` is the reading end of the signal pipe.

        `may_stop` is called once the role is told to stop, until it returns True: the role may have to outlive others.
        """
        self.name = name
        self.bell = bell
        self.stop_fd = stop_fd
        self.counters: CounterPage = pages.counters(name, [MISSED_RINGS])
        self._health = pages.health.row(name)
        self.current_client: CurrentClient = self._health.current_client()
        self._missed_rings = self.counters.index_of(MISSED_RINGS)
        self._may_stop = may_stop
        self._is_told = False
        self._stopping = False
        self._next_beat_ms = 0
        self._long_calls: list[tuple[str, int]] = []
        self._stop_poll = select.poll()
        self._stop_poll.register(stop_fd, select.POLLIN)
        self._poll = select.poll()
        self._poll.register(stop_fd, select.POLLIN)
        if bell is not None:
            bell.woke()  # a predecessor may have been killed in its sleep
            self._poll.register(bell.fd, select.POLLIN)

    # ---- signs of life

    def running(self) -> None:
        """Say that the start is over and work is being done."""
        self._health.state("running")
        self._beat_now()

    def beat(self) -> None:
        """Show life. Cheap: a store every 250 ms at most."""
        if monotonic_ms() >= self._next_beat_ms:
            self._beat_now()

    @contextmanager
    def long_call(self, what: str, limit_ms: int) -> Iterator[None]:
        """Announce a call during which nobody can beat: what it is, for operators, and how long it may take at most."""
        call = (what, monotonic_ms() + limit_ms)
        self._long_calls.append(call)
        self._health.long_call(*call)
        try:
            yield
        finally:
            self._long_calls.pop()
            self._beat_now()  # order: before the announcement goes, or the role looks silent in between
            if self._long_calls:
                self._health.long_call(*self._long_calls[-1])
            else:
                self._health.long_call_over()

    # ---- stopping

    def take_stop_order(self) -> bool:
        """Take the order to stop, if it was given. Returns whether the role must stop now, and True from then on.

        The health page shows `stopping` from the moment the order is taken. A system call until then: call it once a round, not
        once a record.
        """
        if not self._is_told and self._stop_poll.poll(0):
            self._take_order()
        if self._is_told and not self._stopping:
            self._stopping = self._may_stop()
        return self._stopping

    # ---- waiting

    def wait(self, ready: Callable[[], bool], timeout_ms: int) -> bool:
        """Sleep until rung, told to stop, or the time is over. True: look for work. False: nothing came in that time.

        `ready` loads cells and says whether there is work. It must speak only of what somebody rings for: work that comes
        with the clock belongs into `timeout_ms`. The order to stop ends the wait; once
        `take_stop_order` has returned True, later waits, by a role that drains, are as before.
        """
        if self.bell is None:
            raise ValueError(f"role {self.name} has no bell to wait for")
        self.beat()
        self.bell.prepare_sleep()
        try:
            if ready():  # order: after prepare_sleep, see ipc.bells
                return True
            if self._poll_until(self._poll, timeout_ms):
                return True
            if not ready():
                return False
            if not self._poll.poll(_GRACE_MS):
                self.counters.add_at(self._missed_rings)
            return True
        finally:
            self.bell.woke()

    def nap(self, timeout_ms: int) -> bool:
        """Sleep by the clock without asking to be rung. True: cut short by being told to stop, the first time."""
        self.beat()
        return self._poll_until(self._stop_poll, timeout_ms)

    # ---- within

    def _poll_until(self, poll: select.poll, timeout_ms: int) -> bool:
        """Poll in pieces, with a beat between. True when something came."""
        if self._is_told and not self._stopping:
            timeout_ms = min(timeout_ms, _LAST_LOOK_MS)
        deadline_ms = monotonic_ms() + timeout_ms
        while True:
            left_ms = max(0, deadline_ms - monotonic_ms())
            events = poll.poll(min(left_ms, _LONGEST_POLL_MS))
            self.beat()
            for fd, _ in events:
                if fd == self.stop_fd:
                    self._take_order()
                elif self.bell is not None:
                    self.bell.drain()
            if events:
                return True
            if left_ms <= _LONGEST_POLL_MS:
                return False

    def _take_order(self) -> None:
        self._is_told = True
        # The byte stays in the pipe, for asyncio loops that watch it too; here it would end every wait from now on.
        self._poll.unregister(self.stop_fd)
        self._stop_poll.unregister(self.stop_fd)
        self._health.state("stopping")
        self._beat_now()

    def _beat_now(self) -> None:
        now_ms = monotonic_ms()
        self._health.beat(now_ms)
        self._next_beat_ms = now_ms + _BEAT_MS


class RoleContext(ApplianceRoleContext):
    """What a role of a broker has besides: that broker's shared objects."""

    def __init__(
        self,
        name: str,
        instance: Instance,
        bell: Bell | None,
        stop_fd: int,
        may_stop: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(name, instance.pages, bell, stop_fd, may_stop)
        self.instance = instance
        self.control: ControlBlock = instance.control
