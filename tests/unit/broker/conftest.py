"""A broker's processors over a real store, made anew for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.small_broker import Peer, SmallBroker
from support.wire import stop_clock_of_turns

MakeBroker = Callable[..., SmallBroker]


@pytest.fixture
def make_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeBroker]:
    stop_clock_of_turns(monkeypatch)
    made: list[SmallBroker] = []

    def make(**options: Any) -> SmallBroker:
        made.append(SmallBroker(tmp_path / f"store{len(made)}", **options))
        return made[-1]

    yield make
    for broker in made:
        broker.close()


@pytest.fixture
def broker(make_broker: MakeBroker) -> SmallBroker:
    return make_broker()


@pytest.fixture
def client(broker: SmallBroker) -> Peer:
    return broker.connect()
