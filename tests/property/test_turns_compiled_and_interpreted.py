"""The loop's time is divided alike by the compiled and the interpreted form of `Turns`."""

import json

import pytest

from headrace.remoting import turns
from support import shared_loop
from support.interpreted import run_interpreted


def test_turns_are_compiled() -> None:
    assert not turns.__file__.endswith(".py"), "run `make compile` first: both forms are to be compared"


@pytest.mark.parametrize("seed", [b"1", b"2", b"3"])
def test_compiled_and_interpreted_turns_agree(seed: bytes) -> None:
    made = shared_loop.outcome(seed)
    assert run_interpreted("support.shared_loop", "outcome", seed) == made
    outcome = json.loads(made)
    decided = {(what, name) for name, what, _ in outcome["seen"]}
    assert decided == {(what, name) for what in (True, False, "turn") for name in "abc"}
    assert outcome["waits"] > 50
