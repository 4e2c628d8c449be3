"""Every scenario runs against Apache's own servers and against the appliance: where both agree, the test is true."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from support.appliance import Appliance
from support.client import Client
from support.java import IMPATIENT, QUICK_START, Java
from support.reference import Reference, thrown_away
from support.sdk import await_registered
from support.servers import Server

SERVERS: dict[str, type[Reference] | type[Appliance]] = {"reference": Reference, "headrace": Appliance}
# Apache's jars need no proof that their byte code is sound: a quarter of a broker's start.
Reference.flags = (*QUICK_START, "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/interop/" in item.nodeid.replace("\\", "/"):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """Gives the run's server of a make, and starts it when it is first asked for."""
    started: dict[str, Server] = {}
    with ExitStack() as stack:

        def give(make: str) -> Server:
            if make not in started:
                server = SERVERS[make](tmp_path_factory.mktemp(make) / "data")
                started[make] = stack.enter_context(thrown_away(server))
                # Apache's broker serves a little before name servers know it.
                await_registered(server.name_server)
            return started[make]

        yield give


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest, serving: Callable[[str], Server]) -> Server:
    """A server that serves all scenarios of a run, one after the other."""
    return serving(request.param)


@pytest.fixture(scope="session")
def impatient_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """A client that looks every half second, not every 20 s, whether it may lock a queue that another still holds."""
    with Java(tmp_path_factory.mktemp("impatient"), flags=(*QUICK_START, *IMPATIENT)) as java:
        yield java


@pytest.fixture
def client(java: Java, server: Server) -> Client:
    """The official client at the server."""
    return Client(java, server)
