"""The broker's counters, added to the counter page, which outlives the process. The page has all of them from the start."""

from collections.abc import Callable

from broker.statistics.broker_stats import BrokerStats
from broker.statistics.traffic import (
    BYTES_IN,
    BYTES_OUT,
    BYTES_STORED,
    MESSAGES_IN,
    MESSAGES_OUT,
    MESSAGES_READ,
    MESSAGES_STORED,
    PULLS_FOUND,
    PULLS_MISSED,
    PUTS_FAILED,
)
from headrace.model import connection_limits
from headrace.remoting.server import RemotingServer
from ipc.counter_page import CounterPage
from store.query.unreadable_records import UnreadableRecords

UNREADABLE_RECORDS = "unreadable_records"
REFUSED_REQUESTS = "refused_requests"
TLS_FAILURES = "tls_failures"

LIMITS = (
    *connection_limits.OPTIONS,
    "maxHeldPulls",
    "maxHeldPullsPerConnection",
    "maxTopicsCreatedPerMinute",
    "maxMessageProperties",
    "maxMessagePropertiesSize",
    "maxFilterLength",
    "maxFilterTerms",
    "maxFilters",
)
"""The limits whose reaching is counted, by their options, in the counter `limit.OPTION`."""

_LEVELS = ("held_pulls", "connections", "connection_buffer_bytes")


class Counters:
    """`add` adds the counts since the last call."""

    def __init__(
        self,
        page: CounterPage,
        stats: BrokerStats,
        held_pulls: Callable[[], int],
        server: RemotingServer,
        unreadable: UnreadableRecords,
    ) -> None:
        self._page = page
        self._stats = stats
        self._held_pulls = held_pulls
        self._server = server
        self._unreadable = unreadable
        # A current number, unlike the other counters, is not continued from a killed predecessor.
        self._counted = {name: page.read().get(name, 0) for name in _LEVELS}
        for name in self._now():  # a reader finds every counter as soon as the broker runs
            page.index_of(name)
        self.add()

    def add(self) -> None:
        """Called once per tick. Writes only what has changed: sends wait meanwhile."""
        self._stats.gather()
        now = self._now()
        for name, value in now.items():
            change = value - self._counted.get(name, 0)
            if change:
                self._page.add(name, change)
        self._counted = now

    def _now(self) -> dict[str, int]:
        stats = self._stats
        return {
            MESSAGES_IN: stats.messages_in,
            BYTES_IN: stats.bytes_in,
            PUTS_FAILED: stats.puts_failed,
            MESSAGES_OUT: stats.messages_out,
            BYTES_OUT: stats.bytes_out,
            MESSAGES_STORED: stats.store.messages_stored,
            BYTES_STORED: stats.store.bytes_stored,
            MESSAGES_READ: stats.store.messages_read,
            PULLS_FOUND: stats.pulls_found,
            PULLS_MISSED: stats.pulls_missed,
            UNREADABLE_RECORDS: self._unreadable.count,
            REFUSED_REQUESTS: self._server.refused_requests,
            TLS_FAILURES: self._server.tls_failures,
            "held_pulls": self._held_pulls(),
            "connections": len(self._server.connections),
            "turn_waits": self._server.waits,
            "connection_buffer_bytes": self._server.held_bytes,
            **{f"limit.{option}": count for option, count in self._server.faults.limits.items()},
        }
