"""Brokers register with several name servers of both kinds."""

import base64
import json
from pathlib import Path

from support.appliance import Appliance
from support.client import Client, assert_exactly
from support.java import Java
from support.reference import Reference, disposable
from support.servers import Server, wait_until


def test_apache_broker_registers_with_our_name_server(java: Java, tmp_path: Path) -> None:
    with Appliance(tmp_path / "ours", settings={"brokerName": "broker-a"}) as ours:
        more = ("--no-namesrv", f"--namesrv={ours.name_server}", "--name=broker-b")
        with Reference(tmp_path / "theirs", more=more) as theirs:
            wait_until(
                lambda: brokers(java, ours.name_server) == {"broker-a": ours.broker, "broker-b": theirs.broker},
                60,
                "both registered",
            )
            assert_serves(java, theirs, ours.name_server, "AtTheirs")
            assert_serves(java, ours, ours.name_server, "AtOurs")
            assert_spreads(java, [ours, theirs], ours.name_server)
        # It has unregistered: clients no longer get its address.
        wait_until(lambda: brokers(java, ours.name_server) == {"broker-a": ours.broker}, 60, "unregistered")


def test_our_broker_registers_with_both_name_servers(java: Java, tmp_path: Path) -> None:
    with (
        disposable(Reference(tmp_path / "theirs")) as theirs,
        Appliance(tmp_path / "first", settings={"brokerName": "broker-b"}) as first,
    ):
        both = f"{theirs.name_server};{first.name_server}"
        settings = {"brokerName": "broker-c", "nameserverEnable": "false", "namesrvAddr": both}
        with Appliance(tmp_path / "second", settings=settings) as second:
            wait_until(
                lambda: brokers(java, first.name_server).get("broker-c") == second.broker, 60, "registered with ours"
            )
            wait_until(
                lambda: brokers(java, theirs.name_server).get("broker-c") == second.broker,
                60,
                "registered with Apache's",
            )
            for number, names in enumerate((theirs.name_server, first.name_server, both)):
                assert_serves(java, second, names, f"AtSecond-{number}")
        wait_until(lambda: "broker-c" not in brokers(java, theirs.name_server), 60, "unregistered from Apache's")
        wait_until(lambda: set(brokers(java, first.name_server)) == {"broker-b"}, 60, "unregistered from ours")


def brokers(java: Java, name_server: str) -> dict[str, str]:
    """The masters that a name server knows, by name."""
    answer = java.call("raw", address=name_server, code=106)
    assert answer["code"] == 0
    # fastjson writes the keys of brokerAddrs as bare numbers
    text = base64.b64decode(answer["body"]).decode().replace("{0:", '{"0":')
    return {name: data["brokerAddrs"]["0"] for name, data in json.loads(text)["brokerAddrTable"].items()}


def assert_serves(java: Java, server: Server, names: str, topic: str) -> None:
    """Checks that a client that knows only `names` can send to and consume from a topic of the server."""
    java.call("create-topic", namesrv=names, broker=server.broker, topic=topic, queues=2)
    sent = java.call("send", namesrv=names, topic=topic, mode="sync", first=0, count=50)
    java.call("consume", namesrv=names, topic=topic, kind="concurrent", consumer=topic, group=f"{topic}-group")
    assert java.call("await", consumer=topic, count=50, deadlineMs=60_000)["there"]
    assert_exactly(java.call("received", consumer=topic), sent)
    java.call("stop-consuming", consumer=topic)


def assert_spreads(java: Java, servers: list[Server], names: str) -> None:
    """Checks that a topic on both brokers is written to and read from both."""
    topic = "AtBoth"
    for server in servers:
        admin = Client(java, server)
        answer = admin.call("raw", address=server.broker, code=17, ext={**TOPIC, "topic": topic})
        assert answer["code"] == 0, answer

    def is_known() -> bool:
        route = java.call("raw", address=names, code=105, ext={"topic": topic, "acceptStandardJsonOnly": "true"})
        return route["code"] == 0 and len(json.loads(base64.b64decode(route["body"]))["queueDatas"]) == len(servers)

    wait_until(is_known, 60, f"a route to {topic} at both")
    sent = java.call("send", namesrv=names, topic=topic, mode="async", first=0, count=200)
    assert {message["brokerName"] for message in sent} == {"broker-a", "broker-b"}
    java.call("consume", namesrv=names, topic=topic, kind="concurrent", consumer=topic, group=f"{topic}-group")
    assert java.call("await", consumer=topic, count=200, deadlineMs=60_000)["there"]
    java.call("stop-consuming", consumer=topic)


TOPIC = {
    "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6", "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0", "order": "false",
}  # fmt: skip
