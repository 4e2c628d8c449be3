"""Tests that kill processes. `make test` runs a short form, `make test-crash` the full one."""

import random

import pytest

from support.crash import chance as seeded_chance


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/crash/" in item.nodeid.replace("\\", "/"):
            item.add_marker(pytest.mark.crash)


@pytest.fixture
def chance() -> random.Random:
    """A random number generator whose seed is printed on failure."""
    return seeded_chance()
