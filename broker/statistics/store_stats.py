"""StoreStats: messages appended to the log or read for pulls, and the durations of both (admin spec 5).

Messages of clients are counted by topic and group elsewhere (`broker_stats`); these are the store's figures, as in RocketMQ's store:
they include messages appended by the broker itself (retries, dead letters, delayed, prepared, op and committed messages) and those read to
check transactions.
"""

from broker.statistics.durations import Durations


class StoreStats:
    """Counts since the start. Used in the broker's event loop."""

    def __init__(self) -> None:
        self.messages_stored = 0
        self.bytes_stored = 0
        self.messages_read = 0
        self.puts = Durations()
        """Durations from a request, or a batch of requests from one read, to its response."""
        self.gets = Durations()
        """The same for pulls, without the time for which a pull was held."""

    def stored(self, messages: int, size_bytes: int) -> None:
        """Counts appended records."""
        self.messages_stored += messages
        self.bytes_stored += size_bytes
