"""The rows of bench/compare.py: what is measured, on which servers, and the goals that are set for each row."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Setup:
    """The servers that a load needs. Loads with the same setup run one after the other on the same servers."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()
    """Keys of the brokers, the same for Apache's and ours."""
    masters: int = 1
    has_slave: bool = False
    topics: int = 1
    """More than one: RawLoad-0, RawLoad-1, ..."""
    queues: int = 4
    has_apache: bool = True
    """Whether Apache's broker is measured too."""

    @property
    def topic_names(self) -> list[str]:
        """The topics that the load generator sends to."""
        return [TOPIC] if self.topics == 1 else [f"{TOPIC}-{number}" for number in range(self.topics)]


@dataclass(frozen=True)
class Load:
    """One row of the table: its figures are those of a server in a round."""

    title: str
    mode: str
    """Of the load generator, or java, push or end-to-end: the official Java client."""
    arguments: dict[str, int | str]
    """With several masters, those of the generator of each of them."""
    warmup_s: float
    without: str = ""
    """The row whose figures this one's are compared with."""
    setup: Setup = Setup("defaults")
    figures: tuple[str, ...] = ("rate", "cpu_us", "p50_us", "p99_us")
    goals: dict[str, float] = field(default_factory=dict)
    """Ratios of Headrace to Apache, by figure."""
    own: dict[str, float] = field(default_factory=dict)
    """Bounds of Headrace's own figures."""
    parts: dict[str, float] = field(default_factory=dict)
    """Headrace's figures as parts of the same figures of the row `without`."""
    share: float = 0
    """Sends are offered at this part of the rate of `pipelined`; the broker may refuse some."""
    latency: str = "of a request"

    def words(self, figure: str) -> str:
        """The title of a figure."""
        return FIGURES[figure][0].format(self.latency)


@dataclass(frozen=True)
class Single:
    """A row of which there is one figure a round. Less is better."""

    words: str
    shape: str
    goal: float | None = None
    """A ratio of Headrace to Apache."""
    own: float | None = None
    """A bound of Headrace's own figure."""


TOPIC = "RawLoad"
END_TO_END_TOPIC = "EndToEnd"
ACCOUNT = "bench-account:bench-secret"

FIGURES = {
    "rate": ("messages/s", ",.0f"),
    "cpu_us": ("CPU, us a message", ".2f"),
    "p50_us": ("p50 {}, us", ",.0f"),
    "p99_us": ("p99 {}, us", ",.0f"),
    "accepted": ("accepted, part of the messages offered", ".2f"),
}
"""The figures of a load, with their words and formats."""
MORE_IS_BETTER = {"rate", "accepted"}

START, CLEAN_START, KILL_START, MEMORY, CATCH_UP, MANY_STOP, MANY_START = (
    "start",
    "clean",
    "kill",
    "memory",
    "catch-up",
    "many-stop",
    "many-start",
)
SINGLE = {
    START: Single("start to first message, s", ".2f", 0.05, 0.3),
    CLEAN_START: Single("start after a clean stop, to first message, s", ".2f", 0.056, 0.5),
    KILL_START: Single("start after kill -9, to first message, s", ".2f", 1 / 3),
    MEMORY: Single("anonymous memory of all processes after the loads, MiB", ",.0f", 0.05, 80),
    CATCH_UP: Single("50,000 queues: end of the load until all messages are in their queues, s", ".2f", own=1),
    MANY_STOP: Single("50,000 queues: clean stop, s", ".2f", own=3),
    MANY_START: Single("50,000 queues: start after a clean stop, to first message, s", ".2f", own=3),
}

DEFAULTS = Setup("defaults")
SYNC_FLUSH = Setup("SYNC_FLUSH", (("flushDiskType", "SYNC_FLUSH"),))
ACCESS_CONTROL = Setup("access control", (("aclEnable", "true"),))
LARGE_PULLS = Setup(
    "large pulls", (("maxTransferBytesOnMessageInMemory", "1048576"), ("maxTransferCountOnMessageInMemory", "1024"))
)
MANY_QUEUES = Setup("50,000 queues", topics=500, queues=100, has_apache=False)
THREE_MASTERS = Setup("three masters", masters=3)
ASYNC_MASTER = Setup("ASYNC_MASTER", (("brokerRole", "ASYNC_MASTER"),), has_slave=True)
SYNC_MASTER = Setup("SYNC_MASTER", (("brokerRole", "SYNC_MASTER"),), has_slave=True)
OVERLOAD = Setup("overload", has_apache=False)

PIPELINED: dict[str, int | str] = {"conns": 8, "inflight": 32, "size": 1024}
FILLING = Load("batches of 32 messages of 1 KiB", "batch", {"conns": 8, "inflight": 4, "size": 1024, "batch": 32}, 0)
QUERY = Load(
    "query by key in the filled store, 1 connection", "query", {"conns": 1, "inflight": 1}, 1,
    figures=("p50_us", "p99_us"), own={"p99_us": 500},
)  # fmt: skip
"""Runs on the store that `--loads restart` fills."""


def overload(share: float, warmup_s: float, without: str = "", parts: dict[str, float] | None = None) -> Load:
    """Sends offered at a part of the rate of `pipelined`, by enough connections for more."""
    return Load(
        f"sends of 1 KiB offered at {share:.0%} of capacity, 64 connections", "send", {"conns": 64, "inflight": 1024, "size": 1024},
        warmup_s, without, setup=OVERLOAD, figures=("accepted", "p99_us"), parts=parts or {}, share=share,
    )  # fmt: skip


LOADS = {
    # limit: Apache's broker reaches full speed after some 300,000 messages
    "pipelined": Load(
        "send 1 KiB, 8 connections x 32 in flight", "send", PIPELINED, 5,
        goals={"rate": 8, "cpu_us": 1 / 12},
    ),
    "synchronous": Load(
        "send 1 KiB, 64 synchronous producers", "send", {"conns": 64, "inflight": 1, "size": 1024}, 1.5,
        goals={"rate": 4, "cpu_us": 1 / 6}, own={"cpu_us": 10},
    ),
    "pull": Load(
        "pull, 32 messages of 1 KiB a request, 8 connections", "pull", {"conns": 8, "inflight": 1}, 1.5,
        goals={"rate": 4.3, "cpu_us": 1 / 5}, own={"rate": 1_200_000, "cpu_us": 0.6},
    ),
    "java": Load(
        "official Java client, 16 threads sending 1 KiB", "java", {"threads": 16, "size": 1024}, 2,
        goals={"rate": 4, "cpu_us": 1 / 5},
    ),
    "push": Load(
        "official Java push consumer, stored messages of 1 KiB", "push", {}, 2,
        figures=("rate", "cpu_us"), goals={"cpu_us": 1 / 4},
    ),
    "tls": Load(
        "send 1 KiB over TLS, 8 connections x 32 in flight", "send", PIPELINED | {"tls": "on"}, 3, "pipelined",
        parts={"rate": 0.5},
    ),
    "tls-pull": Load(
        "pull over TLS, 32 messages of 1 KiB a request, 8 connections",
        "pull", {"conns": 8, "inflight": 1, "tls": "on"}, 1.5, "pull", parts={"rate": 0.5},
    ),
    "batch": Load(
        "batches of 32 messages of 100 B, 8 connections x 4 in flight",
        "batch", {"conns": 8, "inflight": 4, "size": 100, "batch": 32}, 2,
        goals={"rate": 4, "cpu_us": 0.23}, own={"rate": 1_500_000, "cpu_us": 0.7},
    ),
    "paced": Load(
        "1,000 sends of 1 KiB a second, 8 connections", "send", {"conns": 8, "inflight": 4, "size": 1024, "rate": 1000}, 1,
        goals={"cpu_us": 0.28, "p50_us": 0.36, "p99_us": 0.375}, own={"cpu_us": 50, "p50_us": 50, "p99_us": 300},
    ),
    "end-to-end": Load(
        "1,000 messages of 1 KiB a second to a Java push consumer", "end-to-end", {"threads": 4, "size": 1024, "rate": 1000}, 3,
        figures=("p50_us", "p99_us"), latency="from before the send to the listener", goals={"p50_us": 0.34, "p99_us": 1 / 3},
        own={"p50_us": 400},
    ),
    "durable-1": Load(
        "SYNC_FLUSH, send 1 KiB, 1 synchronous producer", "send", {"conns": 1, "inflight": 1, "size": 1024}, 2,
        setup=SYNC_FLUSH, goals={"rate": 5.3}, own={"rate": 5500},
    ),
    "durable-8": Load(
        "SYNC_FLUSH, send 1 KiB, 8 synchronous producers", "send", {"conns": 8, "inflight": 1, "size": 1024}, 2,
        setup=SYNC_FLUSH, goals={"rate": 4},
    ),
    "durable-64": Load(
        "SYNC_FLUSH, send 1 KiB, 64 synchronous producers", "send", {"conns": 64, "inflight": 1, "size": 1024}, 2,
        setup=SYNC_FLUSH, goals={"rate": 4, "cpu_us": 0.17, "p99_us": 0.27}, own={"cpu_us": 15, "p99_us": 6000},
    ),
    "durable-pipelined": Load(
        "SYNC_FLUSH, send 1 KiB, 8 connections x 32 in flight", "send", PIPELINED, 2,
        setup=SYNC_FLUSH, goals={"rate": 4},
    ),
    "signed": Load(
        "signed send 1 KiB, 8 connections x 32 in flight", "send", PIPELINED | {"account": ACCOUNT}, 4, "pipelined",
        setup=ACCESS_CONTROL, parts={"rate": 0.7},
    ),
    "signed-pull": Load(
        "signed pull, 32 messages of 1 KiB a request, 8 connections",
        "pull", {"conns": 8, "inflight": 1, "account": ACCOUNT}, 1.5, "pull", setup=ACCESS_CONTROL, parts={"rate": 0.7},
    ),
    "large-pull": Load(
        "pull, 1 MiB of messages of 1 KiB a request, 8 connections", "pull", {"conns": 8, "inflight": 1, "max": 1024}, 1.5,
        setup=LARGE_PULLS, own={"cpu_us": 0.3},
    ),
    "many-queues": Load(
        "50,000 queues (500 topics x 100), send 1 KiB, 8 connections x 32 in flight", "send", PIPELINED, 3, "pipelined",
        setup=MANY_QUEUES, parts={"rate": 0.95},
    ),
    "three-masters": Load(
        "three masters on one machine, send 1 KiB, 12 connections x 32 in flight",
        "send", {"conns": 4, "inflight": 32, "size": 1024}, 3, setup=THREE_MASTERS,
    ),
    "async-master": Load(
        "ASYNC_MASTER with a slave, send 1 KiB, 8 connections x 32 in flight", "send", PIPELINED, 3, setup=ASYNC_MASTER
    ),
    "sync-master": Load(
        "SYNC_MASTER with a slave, send 1 KiB, 8 connections x 32 in flight", "send", PIPELINED, 3, "async-master",
        setup=SYNC_MASTER, parts={"rate": 0.9},
    ),
    "overload-50": overload(0.5, 1),
    "overload-100": overload(1, 1),
    "overload-150": overload(1.5, 1),
    "overload-200": overload(2, 1, "overload-100", {"p99_us": 2}),
}  # fmt: skip
