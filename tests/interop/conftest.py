"""Runs every scenario against Apache's servers and the appliance: expectations that hold for both are right."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from support.appliance import Appliance
from support.client import Client
from support.console import Browser, RunningConsole
from support.java import IMPATIENT, QUICK_START, Java
from support.reference import Reference, disposable
from support.sdk import await_registered
from support.servers import Server

SERVERS: dict[str, type[Reference] | type[Appliance]] = {"reference": Reference, "headrace": Appliance}
# Skips byte code verification of Apache's jars, which takes a quarter of a broker's start.
Reference.flags = (*QUICK_START, "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/interop/" in item.nodeid.replace("\\", "/"):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """Returns the run's server of a kind and starts it on first use."""
    started: dict[str, Server] = {}
    with ExitStack() as stack:

        def give(make: str) -> Server:
            if make not in started:
                server = SERVERS[make](tmp_path_factory.mktemp(make) / "data")
                started[make] = stack.enter_context(disposable(server))
                # Apache's broker accepts requests shortly before it is registered with its name server.
                await_registered(server.name_server)
            return started[make]

        yield give


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest, serving: Callable[[str], Server]) -> Server:
    """A server that runs all scenarios of a session, one after the other."""
    return serving(request.param)


@pytest.fixture(scope="session")
def impatient_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """A client that tries to lock queues held by others every half second instead of every 20 s."""
    with Java(tmp_path_factory.mktemp("impatient"), flags=(*QUICK_START, *IMPATIENT)) as java:
        yield java


@pytest.fixture
def client(java: Java, server: Server) -> Client:
    """The official client connected to the server."""
    return Client(java, server)


@pytest.fixture(scope="module")
def browser(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """An administrator's browser at a console of the server's cluster."""
    with RunningConsole(tmp_path_factory.mktemp("console"), server.name_server, api_timeout=30) as console:
        yield console.administrator()
