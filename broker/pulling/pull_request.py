"""One pull while it is being answered: the request, and what was found out about it."""

import time
from dataclasses import dataclass, field

from headrace.protocol.headers.pull import PullMessageRequestHeader
from store.filter.message_filter import MessageFilter
from store.filter.python.functions import FilterFunction


@dataclass(slots=True)
class PullRequest:
    """Filled in by the checks (broker/pulling/pull_processor.py), each time that it is looked at."""

    header: PullMessageRequestHeader
    offset: int
    """Where the next look begins: a held pull has perhaps passed messages that were not wanted."""
    codes: set[int] | None = None
    """Hashes of the wanted tags; None: all messages."""
    wanted: MessageFilter | None = None
    """What selects by more than tags."""
    function: FilterFunction | None = None
    """What selects in another process."""
    suggested_broker: int = 0
    slow_broker: int = 0
    corrected_broker: int = 0
    began_ns: int = field(default_factory=time.monotonic_ns)
    """When this look at it began."""
