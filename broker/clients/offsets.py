"""OffsetTable: the committed offset of each consumer group in each queue, stored in `config/consumerOffset.json`.

    {"offsetTable":{"<topic>@<group>":{<queue id>:<queue offset>,…},…}}

Commits change only memory; the file is written every `flushConsumerOffsetInterval` and at the stop, as in RocketMQ: after a kill a group may
receive some messages again. A written file is complete and never older than the one before. Any commit is accepted, also of lower offsets,
and for topics and groups that do not exist (remoting spec 4.11).
"""

import asyncio
import logging
from collections.abc import Mapping

from broker.json_file import JsonFile
from headrace.errors import RemoteProtocolError
from headrace.protocol import fastjson

logger = logging.getLogger(__name__)

NO_OFFSET = -1
SEPARATOR = "@"


class OffsetTable:
    """Offsets by group, topic and queue. Used in the broker's event loop; only the file may be written in another thread."""

    def __init__(self, json_file: JsonFile) -> None:
        """Reads the file. Raises ConfigFileUnreadable."""
        self._file = json_file
        # Group first: queries about a group need one look-up, a commit three.
        self._groups: dict[str, dict[str, dict[int, int]]] = json_file.load(_decode) or {}
        self._is_changed = False

    # -- the hot ones -----------------------------------------------------------------------------------------------------

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset; -1 if there is none."""
        topics = self._groups.get(group)
        queues = topics.get(topic) if topics is not None else None
        return queues.get(queue_id, NO_OFFSET) if queues is not None else NO_OFFSET

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Stores the offset, even if it decreases."""
        self._is_changed = True
        try:
            self._groups[group][topic][queue_id] = offset
        except KeyError:
            self._groups.setdefault(group, {}).setdefault(topic, {})[queue_id] = offset

    # -- asking -----------------------------------------------------------------------------------------------------------

    def by_topic(self, group: str) -> Mapping[str, Mapping[int, int]]:
        """The group's offsets: queue id to offset, by topic. A live view of the table."""
        return self._groups.get(group, {})

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """The group's offsets of the topic: queue id to offset. A live view of the table."""
        return self._groups.get(group, {}).get(topic, {})

    def groups(self) -> list[str]:
        """All groups that have committed anything."""
        return list(self._groups)

    def groups_of(self, topic: str) -> set[str]:
        """The groups that have committed anything of the topic."""
        return {group for group, topics in self._groups.items() if topic in topics}

    def to_json(self) -> dict[str, dict[str, dict[int, int]]]:
        """The table as in GET_ALL_CONSUMER_OFFSET and in the file."""
        table = {
            f"{topic}{SEPARATOR}{group}": queues
            for group, topics in self._groups.items()
            for topic, queues in topics.items()
        }
        return {"offsetTable": table}

    def wire_text(self) -> str:
        """The table's compact JSON; a slave asks for it every ten seconds."""
        entries = [
            f"{fastjson.quote(key)}:{{{_joined(queues)}}}" for key, queues in self.to_json()["offsetTable"].items()
        ]
        return f'{{"offsetTable":{{{",".join(entries)}}}}}'

    # -- changing ---------------------------------------------------------------------------------------------------------

    def remove_group(self, group: str) -> bool:
        """Removes the group's offsets. Returns whether there were any."""
        removed = self._groups.pop(group, None)
        self._is_changed = self._is_changed or removed is not None
        return removed is not None

    def remove_topic(self, topic: str) -> None:
        """Removes the topic's offsets of all groups."""
        for topics in self._groups.values():
            if topics.pop(topic, None) is not None:
                self._is_changed = True

    def clone(self, source_group: str, destination_group: str, topic: str) -> None:
        """Replaces the offsets of a group in the topic by a copy of another's."""
        self._groups.setdefault(destination_group, {})[topic] = dict(self.queues(source_group, topic))
        self._is_changed = True

    # -- the file ---------------------------------------------------------------------------------------------------------

    def persist(self) -> None:
        """Writes the file if anything has changed since. Raises OSError; the next call tries again."""
        if self._is_changed:
            self._write(self._take_snapshot())

    async def persist_apart(self) -> None:
        """The same with a copy of the table in a thread, so that no request waits for it."""
        if self._is_changed:
            await asyncio.to_thread(self._write, self._take_snapshot())

    async def keep(self, interval_s: float) -> None:
        """Persists every `interval_s` seconds until it is cancelled; a failed write is logged and retried."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.persist_apart()
            except OSError as error:
                logger.warning("consumer offsets not saved, will retry error=%r", str(error))

    def _take_snapshot(self) -> tuple[int, dict[str, dict[int, int]]]:
        self._is_changed = False
        copies = {key: queues.copy() for key, queues in self.to_json()["offsetTable"].items()}
        return self._file.next_turn(), copies

    def _write(self, snapshot: tuple[int, dict[str, dict[int, int]]]) -> None:
        turn, table = snapshot
        try:
            self._file.write(_pretty(table), turn)
        except OSError:
            self._is_changed = True
            raise


def _joined(queues: Mapping[int, int]) -> str:
    return ",".join([f"{queue_id}:{offset}" for queue_id, offset in queues.items()])


def _pretty(table: Mapping[str, Mapping[int, int]]) -> str:
    """The file's text, equal to that of `fastjson.dumps_pretty`, in a third of the time. There may be tens of thousands of queues."""
    entries = [
        f"\n\t\t{fastjson.quote(key)}:" + (f"{{{_joined(queues)}\n\t\t}}" if queues else "{}")
        for key, queues in table.items()
    ]
    body = f"{{{','.join(entries)}\n\t}}" if entries else "{}"
    return f'{{\n\t"offsetTable":{body}\n}}'


def _decode(data: bytes) -> dict[str, dict[str, dict[int, int]]]:
    """Decodes the file. Queue ids are bare integers, or quoted if another program wrote it."""
    value = fastjson.loads(data)
    table = value.get("offsetTable") if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise RemoteProtocolError("the file has no offsetTable")
    groups: dict[str, dict[str, dict[int, int]]] = {}
    for key, queues in table.items():
        topic, separator, group = str(key).partition(SEPARATOR)
        if not separator or not isinstance(queues, dict):
            raise RemoteProtocolError(
                f"invalid entry {key!r} in offsetTable: expected topic@group with offsets by queue id"
            )
        try:
            offsets = {int(queue_id): int(offset) for queue_id, offset in queues.items()}
        except (TypeError, ValueError) as error:
            raise RemoteProtocolError(f"invalid offsets of {key!r} in offsetTable: {error}") from None
        groups.setdefault(group, {})[topic] = offsets
    return groups
