"""A topic's settings at one broker."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from headrace.model import permission as permissions

UNIT: Final = 1
UNIT_SUBSCRIPTION: Final = 2


class TopicFilterType(StrEnum):
    """Whether TAGS contains one tag or several."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class TopicConfig(Struct, frozen=True):
    """Queues, permission and type of a topic. `sys_flag` has the bits UNIT and UNIT_SUBSCRIPTION; `order` is for ordered topics."""

    name: str
    read_queue_count: int = 8
    write_queue_count: int = 8
    permission: int = permissions.READ | permissions.WRITE
    filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    sys_flag: int = 0
    order: bool = False

    @property
    def is_readable(self) -> bool:
        """Whether consumers may read from the topic."""
        return permissions.is_readable(self.permission)

    @property
    def is_writeable(self) -> bool:
        """Whether producers may write to the topic."""
        return permissions.is_writeable(self.permission)


def topic_sys_flag(*, unit: bool = False, unit_subscription: bool = False) -> int:
    """Returns the topic's sysFlag."""
    return unit * UNIT | unit_subscription * UNIT_SUBSCRIPTION
