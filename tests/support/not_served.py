"""Features that the appliance's broker does not support yet; tests that need them run only against RocketMQ's servers.

    @serves("reply")
    def test_...(server: Server) -> None: ...

A line is taken out when the broker serves it; from then on its tests run against both.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

NOT_SERVED: Final[dict[str, str]] = {}
"""What is not served: a word for it, and what it is."""


def serves(what: str) -> Callable[[Any], Any]:
    """Runs a test against the servers that support it. `what` is a current or former key of NOT_SERVED."""
    servers = ["reference"] if what in NOT_SERVED else ["reference", "headrace"]
    return pytest.mark.parametrize("server", servers, indirect=True, scope="session")


def report() -> str:
    """The list as text."""
    lines = [f"  {name}: {what}" for name, what in NOT_SERVED.items()]
    return "\n".join(["the appliance's broker does not serve yet:", *(lines or ["  nothing: it serves everything"])])
