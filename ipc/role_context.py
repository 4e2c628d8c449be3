"""The context in which a role runs: its name, its broker's shared objects, its bell, and the stop order.

`RoleContext` is for the roles of a broker. The appliance's own roles, which have no store, get an `ApplianceRoleContext`.

Created by the supervisor's child after the fork and passed to the role's `run(context, …)`. The stop signal's handler only writes a byte to a
pipe; the role takes the order with `take_stop_order`, and its loop ends when its work is done.
A plain loop waits only in `wait` or `nap`, which send heartbeats for it. Calls that may take longer than a second are
announced with `long_call`; otherwise the supervisor may take the role for hung.

Each wake-up of a role passes through here, while its caches are cold, so this is a hot module (types in the `.pxd`).
"""

import select
from collections.abc import Callable, Mapping

import cython

from ipc.bells import Bell
from ipc.control_block import ControlBlock
from ipc.counter_page import CounterPage
from ipc.current_client import CurrentClient
from ipc.instance import Instance
from ipc.role_pages import RolePages

if not cython.compiled:
    from ipc.health_row import monotonic_ms

MISSED_RINGS = "missed_rings"
"""The counter of waits that timed out although there was work: a bell was missed. Should stay 0."""

_BEAT_MS = 250  # limit: several heartbeats per heartbeatTimeout, each a store in shared memory
_LONGEST_POLL_MS = 1000  # limit: a waiting role sends a heartbeat at least this often
_LAST_LOOK_MS = 50  # limit: the interval at which a role that must not stop yet checks again whether it may
_GRACE_MS = 20  # limit: a ringer may be preempted for a few ticks between publishing and ringing


class ApplianceRoleContext:
    """Common to all roles: heartbeats, the stop order, and waiting. For the role's main loop only, not for threads."""

    def __init__(
        self,
        name: str,
        pages: RolePages,
        bell: Bell | None,
        stop_fd: int,
        may_stop: Callable[[], bool] = lambda: True,
        on_beat: Callable[[], None] = lambda: None,
    ) -> None:
        """`bell` is None for a role without a bell. `stop_fd` is the reading end of the signal pipe.

        `may_stop` is called once the role is told to stop, until it returns True: the role may have to outlive others. `on_beat` is called
        with each heartbeat, but not with those at the end of a long call.
        """
        self.name = name
        self.bell = bell
        self.stop_fd = stop_fd
        self.counters: CounterPage = pages.counters(name, [MISSED_RINGS])
        self._health = pages.health.row(name)
        self.current_client: CurrentClient = self._health.current_client()
        self._missed_rings = self.counters.index_of(MISSED_RINGS)
        self._may_stop = may_stop
        self._on_beat = on_beat
        self._is_told = False
        self._stopping = False
        self._next_beat_ms = 0
        self._long_calls: list[tuple[str, int]] = []
        self._stop_poll = select.poll()
        self._stop_poll.register(stop_fd, select.POLLIN)
        self._poll = select.poll()
        self._poll.register(stop_fd, select.POLLIN)
        if bell is not None:
            bell.woke()  # a predecessor may have been killed while asleep
            self._poll.register(bell.fd, select.POLLIN)

    # ---- signs of life

    def running(self) -> None:
        """Report that the role is running."""
        self._health.state("running")
        self._beat_now()

    def beat(self) -> None:
        """Send a heartbeat. Cheap: at most one store every 250 ms."""
        if monotonic_ms() >= self._next_beat_ms:
            self._beat_now()

    def long_call(self, what: str, limit_ms: int) -> "LongCall":
        """Announce a call during which no heartbeat can be sent (`with`): its description for operators, and its maximum time."""
        return LongCall(self, what, limit_ms)

    def begin_call(self, what: str, limit_ms: int) -> None:
        """The beginning of a LongCall."""
        until_ms = monotonic_ms() + limit_ms
        self._long_calls.append((what, until_ms))
        self._health.long_call(what, until_ms)

    def end_call(self) -> None:
        """The end of a LongCall."""
        self._long_calls.pop()
        # order: before the announcement is removed, otherwise the role looks silent in between
        self._health.beat(monotonic_ms())
        if self._long_calls:
            what, until_ms = self._long_calls[-1]
            self._health.long_call(what, until_ms)
        else:
            self._health.long_call_over()

    # ---- stopping

    def take_stop_order(self) -> bool:
        """Take the stop order, if there is one. Returns whether the role must stop now, and True from then on.

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
        """Sleep until rung, stopped, or the timeout. True: check for work. False: the timeout expired without work.

        `ready` loads cells and returns whether there is work. It must cover only work for which the role is rung: periodic work
        belongs into `timeout_ms`. The stop order ends the wait; once
        `take_stop_order` has returned True, later waits of a role that finishes its work are as before.
        """
        bell = self._own_bell()
        self.beat()
        bell.prepare_sleep()
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
            bell.woke()

    def nap(self, timeout_ms: int) -> bool:
        """Sleep for a fixed time without requesting to be rung. True: ended early by the stop order, the first time."""
        self.beat()
        return self._poll_until(self._stop_poll, timeout_ms)

    def nap_unless_urgent(self, has_work: Callable[[], bool], timeout_ms: int) -> None:
        """Sleep for a fixed time, at most until somebody waits for the role's work and there is some."""
        bell = self._own_bell()
        self.beat()
        bell.prepare_nap()
        try:
            if not (bell.is_urgent and has_work()):  # order: after prepare_nap, see ipc.bells
                self._poll_until(self._poll, timeout_ms)
        finally:
            bell.woke()

    # ---- within

    def _own_bell(self) -> Bell:
        if self.bell is None:
            raise ValueError(f"role {self.name} has no bell, so it cannot be woken")
        return self.bell

    def _poll_until(self, poll: select.poll, timeout_ms: int) -> bool:
        """Poll in intervals, with heartbeats in between. True if something arrived."""
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
        # The byte stays in the pipe, for asyncio loops that also watch it; here it would end every later wait.
        self._poll.unregister(self.stop_fd)
        self._stop_poll.unregister(self.stop_fd)
        self._health.state("stopping")
        self._beat_now()

    def _beat_now(self) -> None:
        now_ms = monotonic_ms()
        self._health.beat(now_ms)
        self._next_beat_ms = now_ms + _BEAT_MS
        self._on_beat()


class RoleContext(ApplianceRoleContext):
    """The context of a broker's role, with that broker's shared objects."""

    def __init__(
        self,
        name: str,
        instance: Instance,
        bell: Bell | None,
        stop_fd: int,
        may_stop: Callable[[], bool] = lambda: True,
        on_beat: Callable[[], None] = lambda: None,
        take_reloaded_options: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`take_reloaded_options()` returns the options of the broker that a reload of the configuration changed, once."""
        super().__init__(name, instance.pages, bell, stop_fd, may_stop, on_beat)
        self.take_reloaded_options = take_reloaded_options
        self.instance = instance
        self.control: ControlBlock = instance.control


class LongCall:
    """An announced call: `with context.long_call(…):`."""

    def __init__(self, context: ApplianceRoleContext, what: str, limit_ms: int) -> None:
        self._context = context
        self._what = what
        self._limit_ms = limit_ms

    def __enter__(self) -> None:
        self._context.begin_call(self._what, self._limit_ms)

    def __exit__(self, *_: object) -> None:
        self._context.end_call()
