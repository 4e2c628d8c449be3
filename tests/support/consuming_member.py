"""A Python consumer in a separate process, so that it can be killed, and the program that runs there.

    member = PythonMember(server, "group", "Topic", tmp_path / "one.txt")
    member.assigned()          # ids of the queues that it has now
    member.places()            # (queue id, offset) of each message, in the order in which it was given them

What it is given is written to a file at once, so that a kill loses nothing of the record.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from headrace import ClientConfig, PushConsumer, ReceivedMessage, StartFrom  # noqa: E402
from support.servers import Server  # noqa: E402


class PythonMember:
    """A running consumer."""

    def __init__(self, server: Server, group: str, topic: str, record: Path, *, orderly: bool = False) -> None:
        self.record = record
        self.log = record.with_suffix(".log")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__, server.name_server, group, topic, str(record), "orderly" if orderly else "concurrent"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _lines(self, kind: str) -> list[list[str]]:
        # A kill may have cut off the last line.
        text = self.record.read_text() if self.record.exists() else ""
        lines = [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
        return [line[1:] for line in lines if line and line[0] == kind]

    def assigned(self) -> list[int]:
        """The queues of the topic that are assigned to it now."""
        lines = self._lines("assigned")
        return [int(number) for number in lines[-1]] if lines else []

    def places(self) -> list[tuple[int, int]]:
        """Queue and offset of each message."""
        return [(int(queue), int(offset)) for queue, offset in self._lines("message")]

    def stop(self) -> None:
        """Closes it and waits."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0, self.log.read_text()

    def kill(self) -> None:
        """Kills it, as in a crash."""
        self._process.kill()
        self._process.wait()


async def _consume(name_server: str, group: str, topic: str, record: str, kind: str) -> None:
    out = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    consumer = PushConsumer(
        group, ClientConfig(name_server, persist_offsets=0.5), start_from=StartFrom.FIRST, orderly=kind == "orderly"
    )

    @consumer.handler(topic)
    def _take(message: ReceivedMessage) -> None:
        os.write(out, f"message {message.queue_id} {message.queue_offset}\n".encode())

    before: list[int] | None = None
    async with consumer:
        while not stop.is_set():
            now = [queue.queue_id for queue in consumer.assignment() if queue.topic == topic]
            if now != before:
                os.write(out, f"assigned {' '.join(map(str, now))}\n".encode())
                before = now
            try:
                async with asyncio.timeout(0.05):
                    await stop.wait()
            except TimeoutError:
                continue


if __name__ == "__main__":
    asyncio.run(_consume(*sys.argv[1:6]))
