"""The official client connected to one server, and comparisons of received with sent messages."""

from collections import Counter
from typing import Any

from support.java import Java
from support.servers import Server, wait_until

# Added by the receiving client.
_ADDED_BY_RECEIVER = ("MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME")

Message = dict[str, Any]


class Client:
    """The official client, connected to one server."""

    def __init__(self, java: Java, server: Server) -> None:
        """Sends commands to `java` with the addresses of `server`."""
        self.java = java
        self.server = server

    def call(self, do: str, **arguments: Any) -> Any:
        """Runs a command with the server's addresses."""
        return self.java.call(do, namesrv=self.server.name_server, broker=self.server.broker, **arguments)

    def create_topic(self, topic: str, queues: int) -> None:
        """Creates a topic and returns when clients can find it."""
        self.call("create-topic", topic=topic, queues=queues)

    def await_route(self, topic: str) -> None:
        """Waits until clients can find a topic not created by `create_topic`: brokers register it a little later."""
        self.call("await-route", topic=topic)

    def send(self, topic: str, count: int, *, first: int = 0, mode: str = "sync", **arguments: Any) -> list[Message]:
        """Sends messages first..first+count-1 and returns what was sent and where it was stored."""
        sent: list[Message] = self.call("send", topic=topic, count=count, first=first, mode=mode, **arguments)
        assert len(sent) == count
        return sent

    def await_pullable(self, topic: str, count: int, deadline_s: float = 60) -> None:
        """Waits until `count` messages of a topic can be pulled, which is a little after they are acknowledged."""

        def ends() -> int:
            return sum(ends["max"] - ends["min"] for ends in self.call("offsets", topic=topic).values())

        wait_until(lambda: ends() >= count, deadline_s, f"{count} messages in the queues of {topic}")

    def consume(
        self, consumer: str, topic: str, *, kind: str = "concurrent", group: str | None = None, **arguments: Any
    ) -> None:
        """Starts a consumer, under a name chosen by the test, that reads from the first message."""
        self.call("consume", consumer=consumer, topic=topic, kind=kind, group=group or f"{consumer}-group", **arguments)

    def receive(self, consumer: str, count: int, deadline_s: float = 60) -> list[Message]:
        """Waits for `count` different messages and returns everything received so far."""
        said = self.call(
            "await", consumer=consumer, count=count, deadlineMs=int(deadline_s * 1000), timeout_s=deadline_s + 30
        )
        assert said["there"], f"{consumer} has {said} of {count} messages after {deadline_s:g} s"
        return self.received(consumer)

    def received(self, consumer: str) -> list[Message]:
        """Everything a consumer has received so far, in order."""
        messages: list[Message] = self.call("received", consumer=consumer)
        return messages

    def await_assigned(self, consumer: str, count: int, deadline_s: float = 60) -> list[int]:
        """Waits until a consumer has `count` queues and returns them. It may still get more (see `await_shared`)."""
        queues: list[int] = self.call(
            "await-assigned",
            consumer=consumer,
            count=count,
            deadlineMs=int(deadline_s * 1000),
            timeout_s=deadline_s + 30,
        )
        assert len(queues) == count, f"{consumer} reads {queues}, not {count} queues"
        return queues

    def await_shared(self, queues: int, *consumers: str, deadline_s: float = 60) -> list[list[int]]:
        """Waits until each consumer has its final queues, in the order of their names, and returns them."""
        each = queues // len(consumers)
        ends = [list(range(first, first + each)) for first in range(0, queues, each)]
        shares: list[list[int]] = []

        def are_shared() -> bool:
            shares[:] = [self.call("assigned", consumer=consumer) for consumer in sorted(consumers)]
            return shares == ends

        try:
            wait_until(are_shared, deadline_s, "the queues shared")
        except AssertionError as error:
            message = f"{error}; {sorted(consumers)} read {shares}"
            raise AssertionError(message) from None
        return shares

    def await_committed(self, topic: str, group: str, count: int, *consumers: str, deadline_s: float = 60) -> None:
        """Waits until the broker has stored that a group has consumed `count` messages of a topic.

        The `consumers` are made to commit at once; by themselves they begin 10 s after their start. Call it before they
        stop: when the first offsets of a group and topic arrive concurrently, Apache's broker loses one, and here they
        are sent again.
        """

        def knows() -> bool:
            for consumer in consumers:
                self.call("commit", consumer=consumer)
            offsets: dict[str, int] = self.call("consumed", group=group, topic=topic)
            return sum(offset for offset in offsets.values() if offset > 0) >= count

        wait_until(knows, deadline_s, f"{group} has consumed {count} messages of {topic}")

    def stop(self, *consumers: str) -> None:
        """Stops consumers in an orderly way: they commit their offsets and unregister."""
        for consumer in consumers:
            self.call("stop-consuming", consumer=consumer)

    def dump(self, topic: str, **arguments: Any) -> list[Message]:
        """Every message of a topic, queue by queue, pulled one at a time from the lowest offset to the highest."""
        queues = self.call("dump-topic", topic=topic, **arguments)
        return [message for queue in queues for message in queue["messages"]]


def comparable(message: Message) -> Message:
    """What must be equal at the sender and at every receiver."""
    properties = {name: value for name, value in message["properties"].items() if name not in _ADDED_BY_RECEIVER}
    # The broker drops a true WAIT from what it stores and adds its cluster's name.
    properties.pop("CLUSTER", None)
    properties.pop("WAIT", None)
    return {
        "properties": properties,
        **{name: message[name] for name in ("topic", "flag", "keys", "tags", "bodyLength", "bodySha256")},
        "msgId": message["msgId"],
    }


def place(message: Message) -> tuple[int, int]:
    """The queue and the offset in it."""
    return message["queueId"], message["queueOffset"]


def assert_exactly(received: list[Message], sent: list[Message]) -> None:
    """Checks that exactly the sent messages were received, each once, unchanged, from the acknowledged position."""
    ids = Counter(message["msgId"] for message in received)
    again = [one for one, times in ids.items() if times > 1]
    wanted = {message["msgId"]: message for message in sent}
    assert len(wanted) == len(sent), "the sender used a message id twice"
    assert not again, f"{len(again)} messages were received more than once, such as {again[:3]}"
    missing = wanted.keys() - ids.keys()
    assert not missing, f"{len(missing)} messages are missing, such as {wanted[next(iter(missing))]}"
    foreign = ids.keys() - wanted.keys()
    assert not foreign, f"{len(foreign)} messages were never sent, such as {next(iter(foreign))}"
    for message in received:
        original = wanted[message["msgId"]]
        assert comparable(message) == comparable(original)
        if original.get("queueOffset") is not None:
            assert place(message) == place(original)
            assert message.get("offsetMsgId") in (None, original["offsetMsgId"])
        assert message["properties"]["CLUSTER"] == "DefaultCluster"
        assert message["reconsumeTimes"] == 0
        assert message["preparedTransactionOffset"] == 0


def assert_dense(received: list[Message], queues: int) -> None:
    """Checks that the messages fill their queues from offset 0 without gaps."""
    for queue in range(queues):
        offsets = sorted(offset for number, offset in map(place, received) if number == queue)
        assert offsets == list(range(len(offsets)))
