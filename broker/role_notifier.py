"""RoleNotifier: publishes the broker's cells and rings the other roles: log end, operators' requests, changed options.

The only user of the broker's own cells. Each turn of the event loop that appended calls `appended`, so this is a hot module (types in the `.pxd`).
"""

import asyncio
import time
from collections.abc import Mapping

import cython

from broker.settings import Settings
from ipc.control_layout import ALLOCATED_OFFSET, WROTE_OFFSET
from ipc.publish.broker import BrokerPublisher
from ipc.role_context import RoleContext

if not cython.compiled:
    from ipc.cells import load_cell

_ALLOCATED_OFFSET = ALLOCATED_OFFSET
_WROTE_OFFSET = WROTE_OFFSET
_DROP_QUEUES_S = 5.0  # limit: mqadmin's timeout; a restarting dispatch does it afterwards
_POLL_S = 0.002


class RoleNotifier:
    """Publishes, then rings."""

    def __init__(self, context: RoleContext, settings: Settings) -> None:
        instance = context.instance
        self._control = context.control
        self._bells = instance.bells
        self._followers = tuple(instance.bells[role] for role in ("dispatch", "flush", "ha"))
        self._file_size = settings.store.mapped_file_size_commit_log
        self._publisher = BrokerPublisher(self._control)
        self._changed_options = instance.changed_options_writer()
        self.changed_before = instance.changed_options().read()[1]
        """The options changed by a predecessor in this appliance."""

    def appended(self) -> None:
        """Wakes the roles that follow the log, if they sleep."""
        for bell in self._followers:
            bell.ring()
        cells = self._control.cells
        if load_cell(cells, _ALLOCATED_OFFSET) - load_cell(cells, _WROTE_OFFSET) < self._file_size:
            self._bells["housekeeper"].ring()

    def options_changed(self, changed: Mapping[str, str]) -> None:
        """Publishes the options changed so far."""
        self._changed_options.store(changed)
        self._publisher.config_version()  # order: after the page, whose current half it selects
        for bell in self._bells.values():
            bell.ring()

    def delete_expired(self) -> None:
        """Requests that expired files are deleted now."""
        self._publisher.delete_expired_requests()
        self._bells["housekeeper"].ring()

    def losses_counted(self, physical_offset: int) -> None:
        """Publishes that lost messages by forced deletions below this offset are counted and logged."""
        self._publisher.losses_counted(physical_offset)
        self._bells["housekeeper"].ring()

    def clean_topics(self) -> int:
        """Requests that queues of deleted topics are dropped. Returns the number of the request."""
        request = self._publisher.clean_topics_requests()
        self._bells["dispatch"].ring()
        return request

    async def topics_cleaned(self) -> None:
        """The same, and waits for completion with a timeout."""
        request, end = self.clean_topics(), time.monotonic() + _DROP_QUEUES_S
        while self._control.clean_topics_handled < request and time.monotonic() < end:  # noqa: ASYNC110  (another process moves the cell)
            await asyncio.sleep(_POLL_S)
