"""The official Java client reads what the Python producer sends."""

import hashlib
from typing import Any

from headrace import Compression, Message, SendResult
from support.client import Client
from support.sdk import await_registered, producing, run

TOPIC = "SdkToJava"
BODY = bytes(range(256)) * 64


def test_java_reads_every_kind_of_message_unchanged(client: Client) -> None:
    server = client.server
    await_registered(server.name_server)
    client.create_topic(TOPIC, 4)
    sent: dict[str, Message] = {}

    def note(result: SendResult, *messages: Message) -> None:
        sent.update(zip(result.message_id.split(","), messages, strict=True))

    async def main() -> None:
        async with producing(server, "sdk-to-java") as producer:
            for message in (
                Message(TOPIC, b"plain", tags="TagA", keys=["one", "größe"], flag=42, properties={"näme": "välue 😀"}),
                Message(TOPIC, "Größe"),
            ):
                note(await producer.send(message), message)
            batch = [Message(TOPIC, str(number), tags=f"t{number}") for number in range(20)]
            note(await producer.send_batch(batch), *batch)
        for compression in Compression:
            async with producing(server, "sdk-to-java", compression=compression) as producer:
                note(await producer.send(large := Message(TOPIC, BODY, tags=compression.name)), large)
        async with producing(server, "sdk-to-java", linger=0.001) as producer:
            note(await producer.send(lone := Message(TOPIC, b"alone in its batch")), lone)

    run(main())
    client.await_pullable(TOPIC, len(sent))
    received: dict[str, dict[str, Any]] = {message["msgId"]: message for message in client.dump(TOPIC)}
    assert received.keys() == sent.keys()
    for message_id, message in sent.items():
        theirs = received[message_id]
        assert theirs["bodySha256"] == hashlib.sha256(message.body).hexdigest()
        assert theirs["tags"] == message.tags
        assert theirs["flag"] == message.flag
        assert {name: theirs["properties"][name] for name in message.properties} == message.properties
