"""Allocation strategies: which of a topic's queues belong to which member of a group (client spec 3.4).

Every member computes this by itself, from the same queues and client ids in the same order, with the same strategy. So the strategies and the orders
are exactly those of RocketMQ's Java client, and all members of a group must use the same strategy. `tests/golden/allocation` contains the results of
the Java classes for a thousand random groups.

    averagely               consecutive queues, as evenly as possible (the default)
    averagely_by_circle     one queue to each member in turn
    ConsistentHash()        few queues move when a member joins or leaves
    MachineRoom(rooms)      only queues of brokers named `room@…`
    MachineRoomNearby(…)    queues of a room to the members in that room; of a room without members to all members
    Fixed(queues)           these queues, whatever the members

Any function with the signature of `averagely` is a strategy.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from headrace.errors import ConfigError
from headrace.model.message_queue import MessageQueue


class Allocator(Protocol):
    """An allocation strategy: any function with this signature. All members of a group must use the same one."""

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str], /
    ) -> list[MessageQueue]:
        """Returns the queues of `client_id`. Queues and ids are sorted, the same for all members."""


VIRTUAL_NODES: Final = 10

T = TypeVar("T")


def averagely(
    _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Allocates consecutive queues, as evenly as possible; the first members get one more if the number does not divide."""
    if client_id not in client_ids:
        return []
    at, members = client_ids.index(client_id), len(client_ids)
    share, rest = divmod(len(queues), members)
    # With fewer queues than members `share` is 0, and the first `rest` members get one each.
    begin = at * share + min(at, rest)
    return list(queues[begin : begin + share + (at < rest)])


def averagely_by_circle(
    _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Allocates one queue to each member in turn, until none is left."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """Allocates a queue to the member whose virtual node follows the queue's hash on a ring."""

    virtual_nodes: int = VIRTUAL_NODES

    def __post_init__(self) -> None:
        if self.virtual_nodes < 0:
            raise ConfigError(f"virtual_nodes={self.virtual_nodes}: expected 0 or more", "virtual_nodes")

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Returns the queues that are followed by one of our nodes on the ring."""
        if client_id not in client_ids:
            return []
        ring: dict[int, str] = {}
        nodes: dict[str, int] = {}
        for member in client_ids:
            # A duplicate id gets twice as many nodes; of two nodes with one hash the later wins.
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
    """Allocates only queues of brokers named `room@name` whose room is one of `rooms`; the others are read by nobody."""

    rooms: Collection[str]

    def __call__(
        self, _group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Returns consecutive queues of the rooms; those left over go to the first members, one each."""
        if client_id not in client_ids:
            return []
        ours = [queue for queue in queues if _room(queue.broker_name) in self.rooms]
        at, members = client_ids.index(client_id), len(client_ids)
        share, rest = divmod(len(ours), members)
        own = ours[at * share : (at + 1) * share]
        # compat: those left over are the last queues, not the ones next to the member's.
        return own + ours[share * members + at : share * members + at + 1] if at < rest else own


def _room(broker_name: str) -> str | None:
    # compat: Java's split drops empty pieces at the end, so `room@` is in no room, and `@name` is in the room "".
    pieces = broker_name.rstrip("@").split("@")
    return pieces[0] if len(pieces) == 2 else None


RoomOfQueue: TypeAlias = Callable[[MessageQueue], str]
RoomOfMember: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Allocates queues to members in the same room, with the `inner` strategy, and queues of rooms without members to all members.

    `room_of_queue` and `room_of_member` (of a client id) return the room; neither may return an empty string.
    """

    inner: Allocator
    room_of_queue: RoomOfQueue
    room_of_member: RoomOfMember

    def __call__(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Returns our share of our room's queues, then of the queues of each room without members. Raises ConfigError if a room is empty."""
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
            raise ConfigError(f"the room function returned no machine room for {thing}; it must return a name")
        rooms.setdefault(room, []).append(thing)
    return rooms


@dataclass(frozen=True, slots=True)
class Fixed:
    """Allocates exactly these queues, of any topic. Retries are consumed only if the retry topic's queues are included."""

    queues: Sequence[MessageQueue]

    def __call__(
        self, _group: str, _client_id: str, _queues: Sequence[MessageQueue], _client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Returns the given queues."""
        return list(self.queues)


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def allocate(
    allocator: Allocator, group: str, client_id: str, queues: Iterable[MessageQueue], client_ids: Iterable[str]
) -> list[MessageQueue]:
    """Returns a member's queues, with queues and ids in the order that all members use."""
    return allocator(group, client_id, sorted(queues), sorted(client_ids, key=_java_order))
