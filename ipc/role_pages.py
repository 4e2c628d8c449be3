"""Health and counters of one set of roles: those of one broker, or the appliance's own."""

from collections.abc import Iterable, Mapping, Sequence

from ipc import counter_page, health_page
from ipc.counter_page import CounterPage
from ipc.health_page import HealthPage
from ipc.posix import Segment, anonymous_segment

_NO_STORE = "0"


class RolePages:
    """One health page, and a counter page for each role that has a row in it."""

    def __init__(self, health: Segment, counters: Mapping[str, Segment]) -> None:
        """`counters` has a segment for each role."""
        self.health = HealthPage(health)
        self._segments = counters
        self._counters: dict[str, CounterPage] = {}

    @classmethod
    def anonymous(cls, roles: Sequence[str]) -> "RolePages":
        """Pages without a name, for roles that have no store: only processes forked later share them."""
        health = anonymous_segment(health_page.size_bytes(len(roles)))
        health_page.format_health_page(health, _NO_STORE, roles)
        counters = {role: anonymous_segment(counter_page.size_bytes()) for role in roles}
        for segment in counters.values():
            counter_page.format_counter_page(segment, _NO_STORE)
        return cls(health, counters)

    @property
    def roles(self) -> list[str]:
        """The roles, in the order of their rows."""
        return self.health.roles

    def counters(self, role: str, names: Iterable[str] = ()) -> CounterPage:
        """The counters of a role. The role passes the names of its counters, a reader passes none. Raises KeyError."""
        page = self._counters.get(role)
        if page is None:
            page = self._counters[role] = CounterPage(self._segments[role])
        for name in names:
            page.index_of(name)
        return page

    def read_counters(self) -> dict[str, dict[str, int]]:
        """All counters of all roles."""
        return {role: self.counters(role).read() for role in self.roles}
