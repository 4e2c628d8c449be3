"""Whether a message is wanted, asked in two steps: of its ConsumeQueue entry, then of its record.

The first step costs nothing but a look at a bitmap, and answers no only when that is certain. The second evaluates the
expression over the properties in the record. A pull asks both; one that is held asks again when its queue has grown.
"""

from typing import Protocol

from msgspec import Struct

from store.consume_queue.ext_reader import ExtUnit
from store.filter.bloom import BloomFilterData, is_hit
from store.filter.program import TRUE, Program


class MessageFilter(Protocol):
    """What selects messages for a pull."""

    @property
    def reads_units(self) -> bool:
        """Whether `match_entry` looks at units of extended ConsumeQueues; if not it need not be asked."""

    def match_entry(self, tags_code: int, unit: ExtUnit | None) -> bool:
        """False if the message of this entry is certainly not wanted. `unit`: its extended unit, if it has one."""

    def match_record(self, view: memoryview, position: int) -> bool:
        """Whether the message of the whole record at a position of a view is wanted."""


class ExpressionFilter(Struct, frozen=True):
    """Lets the messages pass of which an expression is true. `bits`: the group's, if bitmaps count, in messages stored after `born_time` (ms)."""

    program: Program
    bits: BloomFilterData | None = None
    born_time: int = 0

    @property
    def reads_units(self) -> bool:
        """Whether bitmaps count."""
        return self.bits is not None

    def match_entry(self, tags_code: int, unit: ExtUnit | None) -> bool:  # noqa: ARG002  (another filter may look at tags)
        """False if the bitmap says that the expression is not true."""
        bits = self.bits
        if bits is None or unit is None or unit.store_timestamp <= self.born_time:
            return True
        return len(unit.bit_map) * 8 != bits.bit_count or is_hit(bits, unit.bit_map)

    def match_record(self, view: memoryview, position: int) -> bool:
        """Whether the expression is true of the properties in the record."""
        return self.program.outcome_of_record(view, position) == TRUE
