"""What a client recorded while servers were killed: the journal of `produce-continuously`, line by line.

    try KEY                 it is about to send this message
    send KEY                a request went out; more than one to a try if the client retried by itself
    ack KEY msgId offsetMsgId queueId queueOffset status
    fail KEY problem        given up, for now

A line is written and flushed before the client goes on, so what was acknowledged before a moment stands in the file at that moment.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True)
class Acknowledged:
    """Where the broker durably stored a message (SEND_OK)."""

    key: str
    message_id: str
    port: int
    """The port of the broker."""
    physical_offset: int
    queue_id: int
    queue_offset: int


@dataclass
class Journal:
    """All lines of a journal so far."""

    tried: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    acknowledged: dict[str, Acknowledged] = field(default_factory=dict)
    unsafe: set[str] = field(default_factory=set)
    """Keys that were stored, the broker said, but not (yet) as safely as they should be: FLUSH_DISK_TIMEOUT and the like."""
    failed: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, path: Path) -> "Journal":
        """The current journal; an incomplete last line is ignored."""
        journal = cls()
        for line in path.read_text().split("\n")[:-1]:
            journal._add(line.split("\t"))
        return journal

    def followed_by(self, other: "Journal") -> "Journal":
        """Both journals as one. Their keys must differ."""
        assert not self.tried.keys() & other.tried.keys()
        return Journal(
            self.tried + other.tried,
            self.sent + other.sent,
            self.acknowledged | other.acknowledged,
            self.unsafe | other.unsafe,
            self.failed + other.failed,
        )

    def at(self, port: int) -> "Journal":
        """The same, with only what the broker at this port has acknowledged."""
        return replace(self, acknowledged={key: one for key, one in self.acknowledged.items() if one.port == port})

    def _add(self, words: list[str]) -> None:
        kind, key, *more = words
        match kind:
            case "try":
                self.tried[key] += 1
            case "send":
                self.sent[key] += 1
            case "fail":
                self.failed[key] += 1
            case "ack":
                message_id, offset_message_id, queue_id, queue_offset, status = more
                if status == "SEND_OK":
                    assert key not in self.acknowledged, f"{key} was sent again after it was acknowledged"
                    port, offset = int(offset_message_id[-24:-16], 16), int(offset_message_id[-16:], 16)
                    self.acknowledged[key] = Acknowledged(
                        key, message_id, port, offset, int(queue_id), int(queue_offset)
                    )
                else:
                    self.unsafe.add(key)
            case _:
                message = f"a journal has no {kind}"
                raise AssertionError(message)
