"""LocalOffsets: the offsets of a broadcasting consumer, in a file that the Java client can read and write too (client spec 3.10).

    <directory>/<client id>/<group>/offsets.json      {"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:12}}
    …/offsets.json.bak                                 the previous contents

The keys are objects, as RocketMQ's JSON library writes them. The directory is the given one, `ROCKETMQ_LOCAL_OFFSET_STORE_DIR`, or
`~/.rocketmq_offsets`. A write goes to a temporary file that is renamed over the old one, so a crash leaves one of the two.
"""

import asyncio
import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from msgspec import field

from headrace.client.consuming.offset_store import OffsetMemory
from headrace.errors import ConfigError, RemoteProtocolError
from headrace.model.message_queue import MessageQueue
from headrace.protocol import fastjson
from headrace.protocol.json_bean import JsonBody, to_value

ENVIRONMENT: Final = "ROCKETMQ_LOCAL_OFFSET_STORE_DIR"


class _OffsetFile(JsonBody):
    offset_table: dict[MessageQueue, int] = field(default_factory=dict)


def offset_directory(given: str | os.PathLike[str] | None = None) -> Path:
    """Returns the directory of offset files."""
    return Path(given or os.environ.get(ENVIRONMENT) or Path.home() / ".rocketmq_offsets")


class LocalOffsets(OffsetMemory):
    """The offsets of one group for one client id."""

    def __init__(self, directory: Path, client_id: str, group: str) -> None:
        super().__init__()
        self.path = directory / client_id / group / "offsets.json"
        self._backup = self.path.with_name(self.path.name + ".bak")
        # order: writes happen one after another, as requested: each starts from the result of the one before.
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Reads the file. Raises ConfigError if neither it nor its backup can be read."""
        self._offsets.update(await asyncio.to_thread(self._read))

    async def stored(self, queue: MessageQueue) -> int | None:
        """Returns the queue's offset in the file."""
        return (await asyncio.to_thread(self._read)).get(queue)

    async def persist(self, queues: Collection[MessageQueue], *, wait: bool = False) -> None:  # noqa: ARG002 (a file is always waited for)
        """Writes the offsets of these queues; those of other queues in the file stay. Raises OSError."""
        mine = {queue: self._offsets[queue] for queue in queues if queue in self._offsets}
        if mine:
            # In a thread, and to the end even if the caller is cancelled.
            await asyncio.shield(self._write_in_turn(mine))

    def _read(self) -> dict[MessageQueue, int]:
        problems: list[str] = []
        for path in (self.path, self._backup):
            try:
                text = path.read_text("utf-8")
                if text.strip():
                    return _OffsetFile.decode(text).offset_table
            except FileNotFoundError:
                continue
            except (RemoteProtocolError, OSError, UnicodeError) as error:
                problems.append(f"{path}: {error}")
        if len(problems) > 1 or (problems and not self._backup.exists()):
            raise ConfigError(
                f"the offset file and its backup cannot be read; repair or delete them: {'; '.join(problems)}",
                "offsets_directory",
            )
        return {}

    async def _write_in_turn(self, mine: dict[MessageQueue, int]) -> None:
        async with self._writing:
            await asyncio.to_thread(self._write, mine)

    def _write(self, mine: dict[MessageQueue, int]) -> None:
        table = dict(sorted({**self._read(), **mine}.items()))
        text = fastjson.dumps_pretty(to_value(_OffsetFile(table)))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(self.path.name + ".tmp")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            # order: the old file becomes the backup before the new one takes its name; one of them always exists.
            self._backup.unlink(missing_ok=True)
            os.link(self.path, self._backup)
        os.replace(fresh, self.path)
