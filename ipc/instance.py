"""All shared objects of one broker: its segments and its bells.

The supervisor creates the instance after it has locked the store and before it forks the broker's roles, which inherit it.
Visitors (the console, the command line) open it by name, read-only and without bells. Closing a visitor's view changes nothing.

The control block is created last and unlinked first: a visitor that finds it finds the rest.
"""

import os
from collections.abc import Iterable, Sequence

from ipc import changed_options, changed_rows, control_layout, counter_page, findings, health_page, queue_table
from ipc.bells import Bell, create_eventfd
from ipc.changed_options import ChangedOptions, ChangedOptionsWriter
from ipc.changed_rows import ChangedRowsReader, ChangedRowsWriter
from ipc.control_block import ControlBlock
from ipc.counter_page import CounterPage
from ipc.errors import SegmentMissing
from ipc.findings import FindingsPage
from ipc.health_page import HealthPage
from ipc.names import BELL_ROLES, ROLES, instance_hash, segment_name
from ipc.posix import Segment, create_segment, find_segments, open_segment, unlink_segment
from ipc.queue_table import QueueTable, QueueTableWriter
from ipc.role_pages import RolePages
from ipc.segment_header import check_header, store_header

_CONTROL = "control"
_QUEUE_TABLE = "queue-table"
_CHANGED_ROWS = "changed-rows"
_CHANGED_OPTIONS = "changed-options"
_FINDINGS = "findings"
_HEALTH = "health"
_COUNTERS = "counters-"


class Instance:
    """The shared objects of the broker on one store path."""

    def __init__(self, store_path: str, segments: dict[str, Segment], bells: dict[str, Bell]) -> None:
        self.store_path = store_path
        self.bells = bells
        self.control = ControlBlock(segments[_CONTROL])
        self.pages = RolePages(
            segments[_HEALTH],
            {page.removeprefix(_COUNTERS): segment for page, segment in segments.items() if page.startswith(_COUNTERS)},
        )
        self.health: HealthPage = self.pages.health
        self._segments = segments

    # ---- making, finding, removing

    @classmethod
    def create(
        cls,
        store_path: str | os.PathLike[str],
        roles: Sequence[str] = ROLES,
        queue_table_capacity: int = queue_table.DEFAULT_CAPACITY,
    ) -> "Instance":
        """Create all segments and eventfds; those of a crashed predecessor are unlinked.

        Only the holder of the store's lock may call this. Raises NoSharedMemory, leaving nothing behind.
        """
        store_path = os.path.realpath(store_path)
        cls.remove_stale(store_path)
        store_hash = instance_hash(store_path)
        segments: dict[str, Segment] = {}

        def create(page: str, size_bytes: int) -> Segment:
            segments[page] = create_segment(segment_name(store_path, page), size_bytes)
            return segments[page]

        try:
            queue_table.format_queue_table(
                create(_QUEUE_TABLE, queue_table.size_bytes(queue_table_capacity)), store_hash, queue_table_capacity
            )
            changed_rows.format_changed_rows(create(_CHANGED_ROWS, changed_rows.size_bytes()), store_hash)
            changed_options.format_changed_options(create(_CHANGED_OPTIONS, changed_options.size_bytes()), store_hash)
            findings.format_findings(create(_FINDINGS, findings.size_bytes()), store_hash)
            health_page.format_health_page(create(_HEALTH, health_page.size_bytes(len(roles))), store_hash, roles)
            for role in roles:
                counter_page.format_counter_page(create(_COUNTERS + role, counter_page.size_bytes()), store_hash)
            control = create(_CONTROL, control_layout.SIZE_BYTES)
            store_header(control, control_layout.MAGIC, store_hash)
        except BaseException:
            for segment in segments.values():
                segment.close()
            cls.remove_stale(store_path)
            raise
        asleep = control_layout.ASLEEP
        urgent = {"dispatch": asleep["pulls"]}
        bells = {role: Bell(create_eventfd(), control.words, asleep[role], urgent.get(role)) for role in BELL_ROLES}
        return cls(store_path, segments, bells)

    @classmethod
    def open(cls, store_path: str | os.PathLike[str]) -> "Instance":
        """Open a running broker's segments, read-only. Raises SegmentMissing, LayoutMismatch."""
        store_path = os.path.realpath(store_path)
        store_hash = instance_hash(store_path)
        segments: dict[str, Segment] = {}

        def open_page(page: str, magic: int) -> None:
            segments[page] = open_segment(segment_name(store_path, page))
            check_header(segments[page], magic, store_hash)

        try:
            open_page(_CONTROL, control_layout.MAGIC)
            open_page(_QUEUE_TABLE, queue_table.MAGIC)
            open_page(_CHANGED_ROWS, changed_rows.MAGIC)
            open_page(_CHANGED_OPTIONS, changed_options.MAGIC)
            open_page(_FINDINGS, findings.MAGIC)
            open_page(_HEALTH, health_page.MAGIC)
            for role in HealthPage(segments[_HEALTH]).roles:
                open_page(_COUNTERS + role, counter_page.MAGIC)
        except BaseException as error:
            for segment in segments.values():
                segment.close()
            if isinstance(error, SegmentMissing):
                raise SegmentMissing(f"no appliance is running on {store_path} ({error})") from error
            raise
        return cls(store_path, segments, {})

    @staticmethod
    def remove_stale(store_path: str | os.PathLike[str]) -> list[str]:
        """Unlink the segments that a crashed appliance left on this store path. Only for the holder of its lock. Returns their names."""
        names = find_segments(segment_name(store_path, ""))
        control = segment_name(store_path, _CONTROL)
        return [name for name in sorted(names, key=lambda name: name != control) if unlink_segment(name)]

    def unlink(self) -> None:
        """Remove the names when the broker has stopped. For the supervisor only. Processes keep what they have mapped."""
        self.remove_stale(self.store_path)

    def close(self) -> None:
        """Close this process's mappings and bells; the segments remain."""
        for fd in [bell.fd for bell in self.bells.values()]:
            os.close(fd)
        # Bells and the control block have views of their mapping, which is closed with the last one.
        self.bells = {}
        del self.control
        for segment in self._segments.values():
            segment.close()

    # ---- bells and pages

    def pull_bell(self) -> Bell:
        """The bell of the pulls that the broker holds: the broker's eventfd, with a cell of its own for the sleeper."""
        return Bell(self.bells["broker"].fd, self.control.words, control_layout.ASLEEP["pulls"])

    @property
    def roles(self) -> list[str]:
        """The roles of this broker."""
        return self.pages.roles

    @property
    def queue_table_segment(self) -> Segment:
        """For readers and writers created elsewhere."""
        return self._segments[_QUEUE_TABLE]

    @property
    def changed_rows_segment(self) -> Segment:
        """The same for the ring of changed rows."""
        return self._segments[_CHANGED_ROWS]

    def queue_table(self) -> QueueTable:
        """A reader of its own."""
        return QueueTable(self.queue_table_segment)

    def queue_table_writer(self) -> QueueTableWriter:
        """For dispatch only."""
        return QueueTableWriter(self.queue_table_segment)

    def changed_rows_reader(self) -> ChangedRowsReader:
        """A reader of its own, from now on."""
        return ChangedRowsReader(self.changed_rows_segment)

    def changed_rows_writer(self) -> ChangedRowsWriter:
        """For dispatch only."""
        return ChangedRowsWriter(self.changed_rows_segment)

    def changed_options(self) -> ChangedOptions:
        """A reader of its own."""
        return ChangedOptions(self._segments[_CHANGED_OPTIONS], self.control)

    def changed_options_writer(self) -> ChangedOptionsWriter:
        """For the broker only."""
        return ChangedOptionsWriter(self._segments[_CHANGED_OPTIONS], self.control)

    def findings_page(self) -> FindingsPage:
        """The findings about consumer groups; only the broker stores them."""
        return FindingsPage(self._segments[_FINDINGS])

    def counters(self, role: str, names: Iterable[str] = ()) -> CounterPage:
        """The counters of a role, as `RolePages` has them. Raises KeyError."""
        return self.pages.counters(role, names)

    def read_counters(self) -> dict[str, dict[str, int]]:
        """All counters of all roles."""
        return self.pages.read_counters()
