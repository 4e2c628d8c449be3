"""The rows of bench/compare.py: what is measured, and the goals that are set for each row.

A goal is a ratio of Headrace to Apache's broker on the same machine in the same session; `part` is Headrace's own rate as a
part of its rate without signatures or TLS.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Load:
    """One row of the table."""

    title: str
    mode: str
    arguments: dict[str, int | str]
    warmup_s: float
    without: str = ""
    """The same load without signatures or TLS."""
    is_durable: bool = False
    """Whether it needs a server with SYNC_FLUSH."""
    goals: dict[str, float] = field(default_factory=dict)
    """Ratios to reach, by figure. `part` is Headrace's own rate as a part of the rate of `without`."""

    @property
    def is_signed(self) -> bool:
        """Whether it needs a server that has access control enabled."""
        return "account" in self.arguments


ACCOUNT = "bench-account:bench-secret"

FIGURES = {
    "rate": ("messages/s", ",.0f"),
    "cpu_us": ("CPU, us a message", ".2f"),
    "p50_us": ("p50 of a request, us", ",.0f"),
    "p99_us": ("p99 of a request, us", ",.0f"),
}
"""The figures of each load, with their words and formats. Of the rate more is better, of the others less."""

START, CLEAN_START, KILL_START, MEMORY = "start", "clean", "kill", "memory"
SINGLE = {
    START: ("start to first message, s", ".2f", 0.05),
    CLEAN_START: ("start after a clean stop, to first message, s", ".2f", 0.056),
    KILL_START: ("start after kill -9, to first message, s", ".2f", 1 / 3),
    MEMORY: ("anonymous memory of all processes after the loads, MiB", ",.0f", 0.05),
}
"""What is measured once per round, with its words, format and goal. Less is better."""

LOADS = {
    # limit: Apache's broker reaches full speed after some 300,000 messages
    "pipelined": Load(
        "send 1 KiB, 8 connections x 32 in flight", "send", {"conns": 8, "inflight": 32, "size": 1024}, 5,
        goals={"rate": 8, "cpu_us": 1 / 12},
    ),
    "synchronous": Load(
        "send 1 KiB, 64 synchronous producers", "send", {"conns": 64, "inflight": 1, "size": 1024}, 1.5,
        goals={"rate": 4, "cpu_us": 1 / 6},
    ),
    "pull": Load(
        "pull, 32 messages of 1 KiB a request, 8 connections", "pull", {"conns": 8, "inflight": 1}, 1.5,
        goals={"rate": 4.3, "cpu_us": 1 / 5},
    ),
    "java": Load(
        "official Java client, 16 threads sending 1 KiB", "java", {"threads": 16, "size": 1024}, 2,
        goals={"rate": 4, "cpu_us": 1 / 5},
    ),
    "tls": Load(
        "send 1 KiB over TLS, 8 connections x 32 in flight",
        "send", {"conns": 8, "inflight": 32, "size": 1024, "tls": "on"}, 5, "pipelined", goals={"part": 0.5},
    ),
    "tls-pull": Load(
        "pull over TLS, 32 messages of 1 KiB a request, 8 connections",
        "pull", {"conns": 8, "inflight": 1, "tls": "on"}, 1.5, "pull", goals={"part": 0.5},
    ),
    "batch": Load(
        "batches of 32 messages of 100 B, 8 connections x 4 in flight",
        "batch", {"conns": 8, "inflight": 4, "size": 100, "batch": 32}, 2,
        goals={"rate": 4, "cpu_us": 0.23},
    ),
    "paced": Load(
        "1,000 sends of 1 KiB a second, 8 connections", "send", {"conns": 8, "inflight": 4, "size": 1024, "rate": 1000}, 1,
        goals={"cpu_us": 0.28, "p50_us": 0.36, "p99_us": 0.375},
    ),
    "durable-1": Load(
        "SYNC_FLUSH, send 1 KiB, 1 synchronous producer", "send", {"conns": 1, "inflight": 1, "size": 1024}, 2,
        is_durable=True, goals={"rate": 5.3},
    ),
    "durable-8": Load(
        "SYNC_FLUSH, send 1 KiB, 8 synchronous producers", "send", {"conns": 8, "inflight": 1, "size": 1024}, 2,
        is_durable=True, goals={"rate": 4},
    ),
    "durable-64": Load(
        "SYNC_FLUSH, send 1 KiB, 64 synchronous producers", "send", {"conns": 64, "inflight": 1, "size": 1024}, 2,
        is_durable=True, goals={"rate": 4, "cpu_us": 0.17, "p99_us": 0.27},
    ),
    "durable-pipelined": Load(
        "SYNC_FLUSH, send 1 KiB, 8 connections x 32 in flight", "send", {"conns": 8, "inflight": 32, "size": 1024}, 2,
        is_durable=True, goals={"rate": 4},
    ),
    "signed": Load(
        "signed send 1 KiB, 8 connections x 32 in flight",
        "send", {"conns": 8, "inflight": 32, "size": 1024, "account": ACCOUNT}, 5, "pipelined", goals={"part": 0.7},
    ),
    "signed-pull": Load(
        "signed pull, 32 messages of 1 KiB a request, 8 connections",
        "pull", {"conns": 8, "inflight": 1, "account": ACCOUNT}, 1.5, "pull", goals={"part": 0.7},
    ),
}  # fmt: skip
