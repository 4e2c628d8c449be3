"""Clients that use the binary header encoding (-Drocketmq.serialize.type=ROCKETMQ) are served like any other."""

from collections.abc import Iterator

import pytest

from support.client import Client, assert_dense, assert_exactly
from support.java import Java
from support.servers import Server


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with Java(tmp_path_factory.mktemp("binary"), serialize="ROCKETMQ") as java:
        yield java


def test_clients_with_both_encodings_share_a_topic(binary: Java, java: Java, server: Server) -> None:
    in_binary, in_json = Client(binary, server), Client(java, server)
    in_binary.create_topic("Binary", 4)
    sent = [
        *in_binary.send("Binary", 200, mode="sync"),
        *in_binary.send("Binary", 300, first=200, mode="async", size=1024),
        *in_binary.send("Binary", 50, first=500, mode="oneway"),
        *in_binary.send("Binary", 200, first=550, mode="batch", batch=20),
        *in_binary.send("Binary", 20, first=750, mode="selector", size=6000),
        *in_json.send("Binary", 30, first=770),
    ]
    for client in (in_binary, in_json):
        # one-way sends are in flight until they can be pulled
        name = f"binary-{'json' if client is in_json else 'rocketmq'}"
        for kind in ("concurrent", "orderly", "lite"):
            client.consume(f"{name}-{kind}", "Binary", kind=kind)
        for kind in ("concurrent", "orderly", "lite"):
            received = client.receive(f"{name}-{kind}", len(sent))
            assert_exactly(received, sent)
            assert_dense(received, 4)
        client.stop(*(f"{name}-{kind}" for kind in ("concurrent", "orderly", "lite")))
        assert_exactly(client.dump("Binary"), sent)
    assert_exactly(in_binary.call("query-key", topic="Binary", key="key-560", max=32), [sent[560]])
