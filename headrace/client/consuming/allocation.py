"""Allocation strategies: which of a topic's queues belong to which member of a group (client spec 3.4).

Every member works this out by itself, from the same queues and client ids in the same order, with the same strategy; so the strategies, and the
orders, are those of RocketMQ's Java client to the letter, and all members of a group must use the same one. `tests/golden/allocation` has what the
Java classes give for a thousand random groups.

    averagely               runs of queues, one after another, as equal as can be (the default)
    averagely_by_circle     dealt out like cards
    ConsistentHash()        few queues move when a member comes or goes
    MachineRoom(rooms)      only queues of brokers named `room@…`
    MachineRoomNearby(…)    queues of a room to members in that room; a room without members to all
    Fixed(queues)           these, whoever else is there

A strategy of your own is any function with the signature of `averagely`.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from headrace.errors import ConfigError
from headrace.model.message_queue import MessageQueue


class Allocator(Protocol):
    """A strategy: any function of this form will do. All members of a group must use the same."""

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """Which of the queues are `client_id`'s; queues and ids are sorted, the same for all members."""


VIRTUAL_NODES: Final = 10

T = TypeVar("T")


def averagely(
    _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Runs of queues, as equal as can be; the first members get one more where it does not come out even."""
    if client_id not in client_ids:
        return []
    at, members = client_ids.index(client_id), len(client_ids)
    share, rest = divmod(len(queues), members)
    # With fewer queues than members `share` is 0, and the first `rest` members have one each.
    begin = at * share + min(at, rest)
    return list(queues[begin : begin + share + (at < rest)])


def averagely_by_circle(
    _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """One queue to each member in turn, until all are dealt out."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """A queue belongs to the member whose virtual node follows the queue's hash on a ring."""

    virtual_nodes: int = VIRTUAL_NODES

    def __post_init__(self) -> None:
        if self.virtual_nodes < 0:
            raise ConfigError(f"virtual_nodes={self.virtual_nodes}: expected 0 or more", "virtual_nodes")

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues whose place on the ring is followed by one of our nodes."""
        if client_id not in client_ids:
            return []
        ring: dict[int, str] = {}
        nodes: dict[str, int] = {}
        for member in client_ids:
            # An id that is there twice has twice as many nodes; of two nodes at one place the later one counts.
            first = nodes.get(member, 0)
            for number in range(first, first + self.virtual_nodes):
                ring[_hash(f"{member}-{number}")] = member
            nodes[member] = first + self.virtual_nodes
        places = sorted(ring)
        if not places:
            return []

        def owner(queue: MessageQueue) -> str:
            at = bisect_left(places, _hash(str(queue)))
            return ring[places[at if at < len(places) else 0]]

        return [queue for queue in queues if owner(queue) == client_id]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """Only queues of brokers named `room@name` whose room is one of `rooms`; nobody reads the others."""

    rooms: Collection[str]

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """A run of the rooms' queues; what does not come out even goes one each to the first members."""
        if client_id not in client_ids:
            return []
        ours = [queue for queue in queues if _room(queue.broker_name) in self.rooms]
        at, members = client_ids.index(client_id), len(client_ids)
        share, rest = divmod(len(ours), members)
        own = ours[at * share : (at + 1) * share]
        # compat: the odd ones lie at the end, not beside the member's run.
        return own + ours[share * members + at : share * members + at + 1] if at < rest else own


def _room(broker_name: str) -> str | None:
    # compat: Java's split leaves out empty pieces at the end, so `room@` is no room's broker, and `@name` is one of the room "".
    pieces = broker_name.rstrip("@").split("@")
    return pieces[0] if len(pieces) == 2 else None


RoomOfQueue: TypeAlias = Callable[[MessageQueue], str]
RoomOfMember: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Queues go to members in the same room, by the `inner` strategy; those of rooms without a member to all members.

    `room_of_queue` and `room_of_member` (of a client id) say where they are; neither may answer nothing.
    """

    inner: Allocator
    room_of_queue: RoomOfQueue
    room_of_member: RoomOfMember

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Our share of our room's queues, then of each deserted room's, in the rooms' order. Raises ConfigError for one without a room."""
        if client_id not in client_ids:
            return []
        queues_in = _by_room(queues, self.room_of_queue)
        members_in = _by_room(client_ids, self.room_of_member)
        home = self.room_of_member(client_id)
        own: list[MessageQueue] = []
        if home in queues_in:
            own += self.inner(group, client_id, queues_in[home], members_in[home])
        for room in sorted(queues_in, key=_java_order):
            if room not in members_in:
                own += self.inner(group, client_id, queues_in[room], client_ids)
        return own


def _by_room(things: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    rooms: dict[str, list[T]] = {}
    for thing in things:
        room = room_of(thing)
        if not room:
            raise ConfigError(f"no machine room is known for {thing}")
        rooms.setdefault(room, []).append(thing)
    return rooms


@dataclass(frozen=True, slots=True)
class Fixed:
    """Exactly these queues at every turn, of whatever topic; retries are consumed only if the retry topic's queues are among them."""

    queues: Sequence[MessageQueue]

    def __call__(
        self, _group: str, _client_id: str, _queues: Sequence[MessageQueue], _client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues given."""
        return list(self.queues)


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def allocate(
    allocator: Allocator, group: str, client_id: str, queues: Iterable[MessageQueue], client_ids: Iterable[str]
) -> list[MessageQueue]:
    """A member's queues, with queues and ids in the order in which all members must see them."""
    return allocator(group, client_id, sorted(queues), sorted(client_ids, key=_java_order))
