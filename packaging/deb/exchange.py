"""Sends or receives numbered messages through the appliance on this machine; run by `test-packages` inside a container.

- `create` creates the topic.
- `configure KEY VALUE` changes an option of the broker.
- `send FIRST COUNT` sends messages FIRST … FIRST + COUNT - 1, each until it is acknowledged.
- `export TARGET` exports the topic as the console does: the supervisor runs it inside the service, into TARGET in its folder of exports.
- `receive COUNT [NAME]` receives as a new group, from the first message on, until numbers 0 … COUNT - 1 have arrived. With the
  name of a filter function that selects even numbers, only these may arrive.
"""

# ruff: noqa: INP001, T201 (a program, no package; it prints)

import os
import sys
import threading
import time

from appliance.cli.supervisor_client import ask_supervisor
from headrace import HeadraceError
from headrace.sync import Admin, FilterFunction, Message, Producer, PushConsumer, ReceivedMessage, StartFrom

SERVER = "127.0.0.1:9876"
BROKER = "127.0.0.1:10911"
DATA = "/var/lib/headrace"
TOPIC = "Packages"
DEADLINE_S = 90


def send(first: int, count: int) -> None:
    """An interrupted send is repeated: some messages may be stored twice, none is lost."""
    deadline = time.monotonic() + DEADLINE_S
    with Producer("package-test", SERVER) as producer:
        for number in range(first, first + count):
            while True:
                try:
                    producer.send(Message(TOPIC, str(number)))
                    break
                except HeadraceError as error:
                    if time.monotonic() > deadline:
                        raise SystemExit(f"message {number} was not sent: {error}") from error
                    time.sleep(0.1)
    print(f"sent {count}")


def receive(count: int, function: str | None) -> None:
    """Messages that arrive twice count once."""
    missing = set(range(0, count, 1 if function is None else 2))
    wanted = frozenset(missing)
    unwanted = set[int]()
    is_done = threading.Event()

    def take(message: ReceivedMessage) -> None:
        missing.discard(int(message.body))
        unwanted.update({int(message.body)} - wanted)
        if not missing:
            is_done.set()

    consumer = PushConsumer(f"package-test-{os.getpid()}-{time.time_ns()}", SERVER, start_from=StartFrom.FIRST)
    consumer.subscribe(TOPIC, "*" if function is None else FilterFunction(function), take)
    with consumer:
        if not is_done.wait(DEADLINE_S):
            raise SystemExit(f"{len(missing)} of {count} messages were not received: {sorted(missing)[:10]}")
    if unwanted and function is not None:
        raise SystemExit(f"the filter function let others pass: {sorted(unwanted)[:10]}")
    print(f"received {count}")


def export(target: str) -> None:
    """Prints what the export printed."""
    ask_supervisor(DATA, {"command": "start-export", "target": target, "topics": [TOPIC]}, DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        run = ask_supervisor(DATA, {"command": "exports"}, DEADLINE_S)["runs"][0]
        if run["ended_ms"] is not None:
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"the export did not end: {run}")
        time.sleep(0.1)
    print(*run["output"], sep="\n")
    if run["state"] != "done":
        raise SystemExit(f"the export ended as {run['state']}")


if sys.argv[1] == "create":
    with Admin(SERVER) as admin:
        admin.create_topic(TOPIC, queues=4)
elif sys.argv[1] == "configure":
    with Admin(SERVER) as admin:
        admin.update_broker_config(BROKER, {sys.argv[2]: sys.argv[3]})
elif sys.argv[1] == "send":
    send(int(sys.argv[2]), int(sys.argv[3]))
elif sys.argv[1] == "export":
    export(sys.argv[2])
else:
    receive(int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
