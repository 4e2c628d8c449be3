"""StoreStats: everything that is appended to the log or read for pulls, and the durations of both (admin spec 5).

Clients' messages are counted by topic and group elsewhere (`broker_stats`); these are the store's own figures, as RocketMQ's store counts
them: with what the broker appends by itself (retries, dead letters, delayed, prepared, op and committed messages) and what it reads to
check transactions.
"""

from broker.statistics.durations import Durations


class StoreStats:
    """Counts since the start. Owned by the broker's event loop."""

    def __init__(self) -> None:
        self.messages_stored = 0
        self.bytes_stored = 0
        self.messages_read = 0
        self.puts = Durations()
        """From a request, or a batch of requests that one read brought, to its answer."""
        self.gets = Durations()
        """The same of pulls, less the time for which one was held."""

    def stored(self, messages: int, size_bytes: int) -> None:
        """Records were appended."""
        self.messages_stored += messages
        self.bytes_stored += size_bytes
