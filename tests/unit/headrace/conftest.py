"""Clients whose servers share their event loop: what takes long here is the machine, and no network."""

import pytest

from headrace.remoting import RemotingClient
from support.wire import stop_clock_of_turns


@pytest.fixture(autouse=True)
def connecting_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that stands still for three seconds is not a server that cannot be reached. Tests of just that say how long they wait."""
    defaults = RemotingClient.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "connect_timeout_s", 60.0)


@pytest.fixture
def turns_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a channel is given is handled at once."""
    stop_clock_of_turns(monkeypatch)
