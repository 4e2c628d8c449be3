"""PastMembers: which members consumer groups had in the last day, so that one that left can be named."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from web.sampling.sample import Sample

KEPT_S: Final = 86_400.0
_MOST: Final = 20_000  # limit: members, about 300 bytes each besides their queues; those that were not seen for longest are dropped
_MOST_QUEUES: Final = 50  # limit: of one member


class PastMember(Struct):
    """A member that was connected."""

    client: str
    address: str
    seen_s: float
    """The last sample in which it was connected. Brokers are asked for their connections every minute."""
    queues: tuple[str, ...] = ()
    """Those that it last reported to read, as topic, broker and number; empty if it was never asked."""


class PastMembers:
    """What the samples since the console's start had."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], PastMember] = {}
        """By group and client id, those seen last at the end."""

    def follow(self, sample: Sample, _values: Mapping[str, float]) -> None:
        """Notes who is connected."""
        for broker in sample.brokers:
            for one in broker.members:
                if not one.is_producer:
                    key = (one.group, one.client_id)
                    before = self._seen.pop(key, None)
                    queues = () if before is None else before.queues
                    self._seen[key] = PastMember(one.client_id, one.address, sample.time_s, queues)
        old = [key for key, one in self._seen.items() if one.seen_s < sample.time_s - KEPT_S]
        for key in [*old, *list(self._seen)[len(old) : len(self._seen) - _MOST]]:
            del self._seen[key]

    def note_queues(self, group: str, queues: Mapping[str, Sequence[str]]) -> None:
        """Notes which queues members report to read, by client id."""
        for client, names in queues.items():
            one = self._seen.get((group, client))
            if one is not None:
                one.queues = tuple(names[:_MOST_QUEUES])

    def left(self, group: str, connected: Collection[str]) -> list[PastMember]:
        """The members of a group that are not connected any more."""
        return [one for (name, client), one in self._seen.items() if name == group and client not in connected]
