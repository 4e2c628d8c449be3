"""Every test here kills processes: `make test` runs a short form, `make test-crash` the full one."""

import random
from collections.abc import Iterator

import pytest

from support.crash import chance as seeded_chance
from support.java import Java


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/crash/" in item.nodeid.replace("\\", "/"):
            item.add_marker(pytest.mark.crash)


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """The official client."""
    with Java(tmp_path_factory.mktemp("java")) as java:
        yield java


@pytest.fixture
def chance() -> random.Random:
    """Random numbers from a seed that a failure shows."""
    return seeded_chance()
