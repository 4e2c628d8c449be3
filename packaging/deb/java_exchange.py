"""The official Java client sends messages to the appliance on 127.0.0.1 and receives them.

Run by `test-packages` with the clone's environment, in the network namespace of a container. The client's jars must have been fetched before
(`prepare`), because the container has no network.
"""

# ruff: noqa: INP001 (a program, no package)

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.java import Java, class_path, compile_program

TOPIC = "FromJava"
COUNT = 100
ADDRESSES = {"namesrv": "127.0.0.1:9876", "broker": "127.0.0.1:10911"}


def exchange() -> None:
    """Sends COUNT messages and receives each of them."""
    with tempfile.TemporaryDirectory() as folder, Java(Path(folder)) as java:
        java.call("create-topic", topic=TOPIC, queues=4, **ADDRESSES)
        sent = java.call("send", topic=TOPIC, count=COUNT, first=0, mode="sync", **ADDRESSES)
        assert [message["status"] for message in sent] == ["SEND_OK"] * COUNT
        java.call("consume", consumer="packages", topic=TOPIC, kind="concurrent", group="packages", **ADDRESSES)
        seen = java.call("await", consumer="packages", count=COUNT, deadlineMs=60_000, **ADDRESSES)
        assert seen["there"], seen


if __name__ == "__main__":
    if sys.argv[1:] == ["prepare"]:
        compile_program()
        class_path()
    else:
        exchange()
