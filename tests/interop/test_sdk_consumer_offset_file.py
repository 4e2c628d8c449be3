"""The offset file of broadcasting consumers: the Java client and ours resume from each other's file."""

import re
import shutil
from pathlib import Path

from headrace import MessageModel, MessageQueue
from headrace.client.consuming.offset_file import LocalOffsets
from support.client import Client
from support.consuming import Gathered, config_for, create_topic, push, send
from support.java import Java
from support.sdk import run
from support.servers import Server, wait_until

GROUP = "offset-file"


def entries(text: str) -> tuple[str, list[str]]:
    """The text around the entries, and the entries."""
    packed = "".join(text.split())
    entry = re.compile(r"\{[^{}]*\}:\d+,?")
    return entry.sub("", packed), sorted(one.rstrip(",") for one in entry.findall(packed))


def test_java_and_python_resume_from_the_same_offset_file(server: Server, java: Java, tmp_path: Path) -> None:
    topic = f"OffsetFile-{server.name}"
    name = f"file-{server.name}"
    client = Client(java, server)
    directory = java.log.parent / "offsets"

    async def first_part() -> list[bytes]:
        await create_topic(server, topic, 2)
        return await send(server, topic, 20)

    run(first_part())
    client.consume(name, topic, kind="broadcast", group=GROUP)
    client.receive(name, 20)

    def is_committed() -> bool:
        # The listener is called before the offset moves to the next message.
        client.call("commit", consumer=name)
        try:
            (text,) = [file.read_text() for file in directory.glob(f"*@{name}/{GROUP}/offsets.json")]
        except (FileNotFoundError, ValueError):  # the client's timer is writing it right now
            return False
        return sum(int(one.rpartition(":")[2]) for one in entries(text)[1]) == 20

    wait_until(is_committed, 60, "all is committed")
    client.stop(name)
    (client_id,) = [path.name for path in directory.iterdir() if path.name.endswith(f"@{name}")]
    address = client_id.split("@")[0]
    theirs = (directory / client_id / GROUP / "offsets.json").read_text()

    async def second_part() -> list[bytes]:
        offsets = LocalOffsets(directory, client_id, GROUP)
        await offsets.load()
        brokers = {queue.broker_name for queue in offsets.offsets()}
        assert offsets.offsets() == {MessageQueue(topic, broker, number): 10 for broker in brokers for number in (0, 1)}
        # Our file equals theirs except for blanks and the order of queues, which is random in Java's map.
        shutil.copytree(directory, tmp_path / "copy")
        copy = LocalOffsets(tmp_path / "copy", client_id, GROUP)
        await copy.load()
        await copy.persist(list(copy.offsets()))
        assert entries(copy.path.read_text()) == entries(theirs)

        gathered = Gathered()
        config = config_for(server, client_ip=address, instance_name=name)
        consumer = push(
            server, GROUP, topic, gathered, config=config, model=MessageModel.BROADCASTING, offsets_directory=directory
        )
        bodies = await send(server, topic, 20, first=20)
        async with consumer:
            assert consumer.client_id == client_id
            await gathered.receive(bodies)
        assert sorted(gathered.bodies) == sorted(bodies)
        return await send(server, topic, 20, first=40)

    last = run(second_part())
    again = f"{name}-again"
    # Java uses a folder named after its instance: the same folder under another name.
    shutil.copytree(directory / client_id, directory / f"{address}@{again}")
    client.consume(again, topic, kind="broadcast", group=GROUP)
    received = client.receive(again, 20)
    client.stop(again)
    assert len(received) == len(last) == 20
    assert {message["queueOffset"] for message in received} == set(range(20, 30))
