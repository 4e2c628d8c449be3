"""What a sample contains: figures of every broker, and the status of the console's own appliance. Data only."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from headrace.model import names


class Traffic(Struct, frozen=True):
    """Messages and bytes since the broker's start."""

    messages: int = 0
    size_bytes: int = 0


class Progress(Struct, frozen=True):
    """How far a group is behind in one topic at one broker."""

    group: str
    topic: str
    lag: int
    lag_ms: int | None
    """How long ago the oldest message that waits was stored; 0: none waits, None: unknown (`time_lags`)."""
    tps: float
    """Messages that the group receives per second."""
    end_offset: int = 0
    """The sum of the ends of the topic's queues: how many messages the topic has ever had."""

    @property
    def is_system(self) -> bool:
        """Whether the topic or the group is RocketMQ's own."""
        return names.is_system_topic(self.topic) or names.is_system_group(self.group)


class ClientKind(Struct, frozen=True, order=True):
    """What connections are counted by. `mode` is PUSH or PULL, empty for producers."""

    group: str
    language: str
    version: str
    mode: str = ""


class Member(Struct, frozen=True, order=True):
    """A connected client of a group."""

    group: str
    client_id: str
    address: str
    is_producer: bool = False


class DeadLetterQueue(Struct, frozen=True):
    """A queue of a group's dead-letter topic: the offsets of the messages that are stored, `end` not included."""

    group: str
    queue: int
    begin: int
    end: int
    read_s: float
    """When it was read, which is less often than the rest of a sample."""


class BrokerSample(Struct, frozen=True):
    """One broker. If it could not be read, `problem` has the reason and the rest is empty."""

    cluster: str
    name: str
    broker_id: int
    address: str
    problem: str | None = None
    runtime: Mapping[str, str] = field(default_factory=dict)
    """Its runtime information, under RocketMQ's names."""
    permission: int | None = None
    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    topic_in: Mapping[str, Traffic] | None = None
    """By topic; None if the broker does not report totals, as Apache's."""
    group_out: Mapping[tuple[str, str], Traffic] | None = None
    """By topic and group; None as above."""
    progress: tuple[Progress, ...] = ()
    producers: Mapping[ClientKind, int] = field(default_factory=dict)
    consumers: Mapping[ClientKind, int] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    """Connected producers, and consumers as of the last minute."""
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """How many messages each group's dead-letter topic has ever had."""
    stored_dead_letters: Mapping[str, int] = field(default_factory=dict)
    """How many of them are stored: the others were deleted after the retention time."""
    dead_letter_queues: tuple[DeadLetterQueue, ...] = ()
    """The queues of the groups in `stored_dead_letters`."""
    topic_events: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Totals since the broker's start: by the name of RocketMQ's metric, by topic; empty if the broker does not report totals."""
    half_messages: int | None = None
    """Half messages whose transactions are not resolved; None if unknown."""

    @property
    def is_master(self) -> bool:
        """Whether it is the master of its name."""
        return self.broker_id == names.MASTER_ID

    @property
    def key(self) -> str:
        """`broker-a`, for a slave `broker-a/1`."""
        return self.name if self.is_master else f"{self.name}/{self.broker_id}"

    def number(self, name: str) -> float | None:
        """A figure of the runtime information; None if it is missing or no number. Of several values, such as rates, the first."""
        words = self.runtime.get(name, "").split()
        try:
            return float(words[0]) if words else None
        except ValueError:
            return None

    def messages_by_topic(self) -> dict[str, int]:
        """How many messages its topics received since its start. Of a broker without totals: how many they ever had, of topics with consumers."""
        if self.topic_in is not None:
            return {topic: traffic.messages for topic, traffic in self.topic_in.items()}
        return {one.topic: one.end_offset for one in self.progress}

    def members_by_group(self) -> Counter[str]:
        """How many consumers of each group are connected to it."""
        members: Counter[str] = Counter()
        for kind, count in self.consumers.items():
            members[kind.group] += count
        return members

    def lags(self) -> Iterator[tuple[str, int, int | None]]:
        """For each group: its lag over all topics, and the longest lag in time, ms; None: unknown where messages wait."""
        by_group: dict[str, list[Progress]] = {}
        for one in self.progress:
            by_group.setdefault(one.group, []).append(one)
        for group, parts in by_group.items():
            lag = sum(one.lag for one in parts)
            longest_ms = max((one.lag_ms or 0 for one in parts), default=0)
            yield group, lag, longest_ms if longest_ms or not lag else None


def received_by_topic(brokers: Iterable[BrokerSample]) -> dict[str, int]:
    """`messages_by_topic` of all masters; 0 of topics that received nothing, unless a broker does not report totals."""
    found: Counter[str] = Counter()
    for broker in brokers:
        if broker.topic_in is not None:
            found.update(dict.fromkeys(broker.topics, 0))
        found.update(broker.messages_by_topic())
    return dict(found)


class GroupFigures(Struct):
    """A consumer group over all brokers."""

    lag: int = 0
    lag_ms: int | None = None
    """None: unknown."""
    members: int = 0
    dead_letters: int = 0
    """Those that are stored."""


def figures_by_group(brokers: Iterable[BrokerSample]) -> dict[str, GroupFigures]:
    """The figures of each group that has consumed, or that has dead letters."""
    found: defaultdict[str, GroupFigures] = defaultdict(GroupFigures)
    for broker in brokers:
        for group, lag, lag_ms in broker.lags():
            one = found[group]
            one.lag += lag
            if lag_ms is not None:
                one.lag_ms = max(one.lag_ms or 0, lag_ms)
        for group, members in broker.members_by_group().items():
            found[group].members = max(found[group].members, members)  # a member is connected to every broker
        for group, stored in broker.stored_dead_letters.items():
            found[group].dead_letters += stored
    for one in found.values():
        if one.lag and not one.lag_ms:
            one.lag_ms = None
    return dict(found)


class Sample(Struct, frozen=True):
    """All brokers at one time. `status` is the supervisor's (`headrace status --json`); None for a console without an appliance."""

    time_s: float
    brokers: tuple[BrokerSample, ...] = ()
    problem: str | None = None
    """Why no name server could be asked; None if one answered."""
    status: Mapping[str, Any] | None = None
    status_problem: str | None = None
    """Why the supervisor did not answer."""
    took_s: float = 0.0


def size_of_text(text: str) -> int | None:
    """The bytes in a size for people, `1.5 KiB`; None for anything else."""
    number, _, unit = text.strip().partition(" ")
    power = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5}.get(unit)
    try:
        return None if power is None else round(float(number) * 1024**power)
    except (ValueError, OverflowError):
        return None


def disk_total(runtime: Mapping[str, str]) -> int | None:
    """The bytes of which the broker reports the used share: without those that the file system reserves, which `disk_sizes` counts; None if unknown."""
    sizes = disk_sizes(runtime)
    if sizes is None:
        return None
    try:
        ratio = float(runtime.get("commitLogDiskRatio", ""))
    except ValueError:
        return sizes[0]
    return round(sizes[1] / (1 - ratio)) if 0 <= ratio < 1 else sizes[0]


def disk_sizes(runtime: Mapping[str, str]) -> tuple[int, int] | None:
    """The size of the store's file system and its free space, bytes, from `Total : 9.8 GiB, Free : 4.5 GiB.`; None if unknown."""
    total, _, free = runtime.get("commitLogDirCapacity", "").rstrip(".").partition(",")
    sizes = [size_of_text(part.partition(":")[2]) for part in (total, free)]
    return (sizes[0], sizes[1]) if sizes[0] and sizes[1] is not None else None
