"""RuntimeFigures: the answer to GET_BROKER_RUNTIME_INFO as numbers. A figure that a broker does not report, or not as a number, is None."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

REFUSES: Final = 0.90
"""From this used share of its disk on, a broker refuses messages: Headrace's limit, and RocketMQ's unless it is configured otherwise
(diskSpaceWarningLevelRatio)."""
DISK_FULL: Final = "refused: the disk is full"
_REFUSALS: Final = {
    16: DISK_FULL,
    2: "refused: the CommitLog cannot be written",
    4: "refused: a ConsumeQueue cannot be written",
    8: "refused: an IndexFile cannot be created",
}
"""By RocketMQ's running flags: why a broker's store refuses all messages. Words for pages."""


class RuntimeFigures(Struct, frozen=True):
    """The figures of one broker, by RocketMQ's names in `texts`."""

    texts: Mapping[str, str]

    @property
    def version(self) -> str | None:
        """Such as V4_9_8."""
        return self.texts.get("brokerVersionDesc")

    @property
    def started(self) -> int | None:
        """When the broker started, ms."""
        return self.count("bootTimestamp")

    @property
    def in_per_second(self) -> float | None:
        """Messages stored per second, of the last ten seconds."""
        return self.rate("putTps")

    @property
    def out_per_second(self) -> float | None:
        """Messages delivered per second, of the last ten seconds."""
        return self.rate("getTransferedTps")

    @property
    def in_today(self) -> int | None:
        """Messages stored since midnight at the broker."""
        return self._difference("msgPutTotalTodayNow", "msgPutTotalTodayMorning")

    @property
    def in_yesterday(self) -> int | None:
        """Messages stored on the day before."""
        return self._difference("msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning")

    @property
    def out_today(self) -> int | None:
        """Messages delivered since midnight at the broker."""
        return self._difference("msgGetTotalTodayNow", "msgGetTotalTodayMorning")

    @property
    def out_yesterday(self) -> int | None:
        """Messages delivered on the day before."""
        return self._difference("msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning")

    @property
    def disk_used(self) -> float | None:
        """The used share of the file system that has the CommitLog."""
        return self.rate("commitLogDiskRatio")

    @property
    def disk_used_percent(self) -> float | None:
        """The same in percent."""
        return None if self.disk_used is None else self.disk_used * 100

    @property
    def refusal(self) -> str | None:
        """Why the broker's store refuses all messages now: a word; None if it accepts them, or if this is unknown.

        Headrace reports its decision. RocketMQ reports only the use of its disk, which decides there.
        """
        flags = self.count("runningFlags")
        if flags is not None:
            return next((reason for flag, reason in _REFUSALS.items() if flags & flag), None)
        return DISK_FULL if self.disk_used is not None and self.disk_used > REFUSES else None

    @property
    def log_begin(self) -> int | None:
        """The first offset of the CommitLog."""
        return self.count("commitLogMinOffset")

    @property
    def log_end(self) -> int | None:
        """The offset at which the next record begins."""
        return self.count("commitLogMaxOffset")

    def rate(self, name: str) -> float | None:
        """The first of several numbers: RocketMQ has the rates of 10, 60 and 600 seconds in one text."""
        try:
            return float(self.texts.get(name, "").split(maxsplit=1)[0])
        except (IndexError, ValueError):
            return None

    def count(self, name: str) -> int | None:
        """A whole number."""
        text = self.texts.get(name, "").strip()
        digits = text.removeprefix("-")
        return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else None

    def _difference(self, later: str, earlier: str) -> int | None:
        end, begin = self.count(later), self.count(earlier)
        return None if end is None or begin is None else max(0, end - begin)
