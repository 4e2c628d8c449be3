"""Filter functions used by the official client: a subscription of type PYTHON, passed on like any other type."""

from collections.abc import Iterator

import pytest

from store.filter.python.functions import FunctionFolder
from support.appliance import Appliance
from support.client import Client, assert_exactly
from support.java import Java, JavaError
from support.reference import disposable

EVEN = """\
import hashlib

def wants(message):
    return message.properties["tens"] in ("2", "4") and hashlib.sha256(message.body).digest()[-1] % 2 == 0
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    data = tmp_path_factory.mktemp("functions") / "data"
    with disposable(Appliance(data, settings={"pythonFilterWorkers": "1"})) as server:
        yield server


@pytest.fixture
def client(java: Java, server: Appliance) -> Client:
    return Client(java, server)


def test_consumer_receives_what_the_function_selects_and_others_everything(client: Client, server: Appliance) -> None:
    FunctionFolder(server.store / "config" / "filters").put("even", EVEN)
    client.create_topic("Functions", 2)
    for name, more in (("chosen", {"function": "even"}), ("all", {})):
        client.call("consume", consumer=name, topic="Functions", kind="concurrent", group=f"{name}-group", **more)
        client.await_assigned(name, 2)
    sent = []
    for tens in range(6):
        sent += client.send("Functions", 10, first=10 * tens, properties={"tens": str(tens)})
    wanted = [
        message
        for message in sent
        if message["properties"]["tens"] in {"2", "4"} and int(message["bodySha256"], 16) % 2 == 0
    ]
    assert 0 < len(wanted) < len(sent)
    assert_exactly(client.receive("chosen", len(wanted)), wanted)
    assert_exactly(client.receive("all", len(sent)), sent)
    client.stop("chosen", "all")


def test_unknown_filter_function_is_refused_at_start(client: Client) -> None:
    client.create_topic("FunctionsNone", 1)
    with pytest.raises(JavaError, match=r"filter function nowhere does not exist|Check client in broker error"):
        client.call(
            "consume", consumer="no", topic="FunctionsNone", kind="concurrent", group="no-group", function="nowhere"
        )
