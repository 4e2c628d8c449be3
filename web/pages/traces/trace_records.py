"""Trace records, as clients write them into the trace topic (spec admin.md 14.2), as steps of a message's way.

Fields are separated by 0x01, records end with 0x02. Older clients leave out the last fields. Anybody may send to the topic: what does not fit the
format is counted and left out.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

FIELD_SEPARATOR: Final = "\x01"
RECORD_END: Final = "\x02"
SENT, CONSUMED, TRANSACTION = "sent", "consumed", "transaction end"
SUCCESS, FAILED, UNKNOWN, COMMITTED, ROLLED_BACK = "success", "failed", "unknown", "committed", "rolled back"
_STATES: Final = {"COMMIT_MESSAGE": COMMITTED, "ROLLBACK_MESSAGE": ROLLED_BACK}
_MOST_TIME: Final = 1 << 52


class Step(msgspec.Struct, frozen=True):
    """One step of a message's way: it was sent, consumed once, or its transaction ended."""

    kind: str
    group: str
    begin: int | None
    """ms since 1970; None: the record is missing."""
    end: int | None
    cost: int | None
    """ms."""
    state: str
    client: str
    """The address from which the record was sent."""
    message_id: str
    topic: str = ""
    tags: str = ""
    keys: str = ""
    broker: str = ""
    retries: int | None = None


class _Before(msgspec.Struct, frozen=True):
    group: str
    begin: int
    message_id: str
    retries: int
    keys: str


class _After(msgspec.Struct, frozen=True):
    group: str
    cost: int
    is_success: bool
    end: int | None
    message_id: str
    keys: str


class Decoder:
    """Collects the records of many trace messages."""

    def __init__(self) -> None:
        self.unreadable = 0
        """Records that do not fit the format."""
        self._steps: list[Step] = []
        self._before: dict[tuple[str, str], tuple[_Before, str]] = {}
        self._after: dict[tuple[str, str], tuple[_After, str]] = {}

    def add(self, body: str, client: str) -> None:
        """The records in the body of a trace message from a client's address."""
        for text in body.split(RECORD_END):
            if not text:
                continue
            try:
                self._add(["" if one == "null" else one for one in text.split(FIELD_SEPARATOR)], client)
            except (ValueError, IndexError):
                self.unreadable += 1

    def _add(self, fields: list[str], client: str) -> None:
        match fields[0]:
            case "Pub":
                begin, cost = _number(fields[1]), _number(fields[10])
                is_success = fields[12 if len(fields) == 13 else 13] == "true" if len(fields) > 12 else True
                state = SUCCESS if is_success else FAILED
                # A batch has one record with all its ids.
                for message_id in fields[5].split(","):
                    self._steps.append(
                        _producer_step(SENT, fields, message_id, begin, begin + cost, cost, state, client)
                    )
            case "EndTransaction":
                at = _number(fields[1])
                state = _STATES.get(fields[11], UNKNOWN)
                self._steps.append(_producer_step(TRANSACTION, fields, fields[5], at, at, None, state, client))
            case "SubBefore":
                keys = fields[7] if len(fields) > 7 else ""
                before = _Before(fields[3], _number(fields[1]), fields[5], _number(fields[6]), keys)
                self._before[fields[4], fields[5]] = before, client
            case "SubAfter":
                is_new = len(fields) >= 9
                end = _number(fields[7]) if is_new else None
                group = fields[8] if is_new else ""
                after = _After(group, _number(fields[3]), fields[4] == "true", end, fields[2], fields[5])
                self._after[fields[1], fields[2]] = after, client
            case _:
                raise ValueError(fields[0])

    def steps(self) -> list[Step]:
        """The steps of all messages, in the order in which they began."""
        consumed = [self._consumed(key) for key in self._before.keys() | self._after.keys()]
        return sorted([*self._steps, *consumed], key=_order)

    def _consumed(self, key: tuple[str, str]) -> Step:
        """What a consumer reported before and after it consumed; either may be missing."""
        before, client = self._before.get(key, (None, ""))
        after, client_after = self._after.get(key, (None, ""))
        begin = None if before is None else before.begin
        end = None
        if after is not None:
            end = after.end if after.end is not None else None if begin is None else begin + after.cost
        state = UNKNOWN if after is None else SUCCESS if after.is_success else FAILED
        return Step(
            CONSUMED,
            (before.group if before is not None else "") or (after.group if after is not None else ""),
            begin,
            end,
            None if after is None else after.cost,
            state,
            client or client_after,
            key[1],
            keys=(before.keys if before is not None else "") or (after.keys if after is not None else ""),
            retries=None if before is None else before.retries,
        )


def steps_with_key(steps: Iterable[Step], key: str) -> list[Step]:
    """The steps of messages with a key."""
    return [step for step in steps if key in step.keys.split()]


def _producer_step(
    kind: str, fields: list[str], message_id: str, begin: int, end: int, cost: int | None, state: str, client: str
) -> Step:
    """A step from the fields that records of producers have in common."""
    return Step(
        kind,
        fields[3],
        begin,
        end,
        cost,
        state,
        client,
        message_id,
        topic=fields[4],
        tags=fields[6],
        keys=fields[7],
        broker=fields[8],
    )


def _order(step: Step) -> tuple[int, str, str, int]:
    return (step.begin or step.end or 0, step.kind, step.group, step.retries or 0)


def _number(text: str) -> int:
    number = int(text) if text else 0
    if not 0 <= number < _MOST_TIME:
        raise ValueError(text)
    return number
