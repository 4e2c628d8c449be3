"""Every example of the consumer page runs as printed, at both brokers; the page names every public call."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import LitePullConsumer, PullConsumer, PushConsumer
from headrace.client.cluster.lifecycle import ClientObject
from headrace.client.cluster.members import ConsumerMember
from support.sdk import await_registered
from support.servers import Server

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "sdk" / "consumer.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_runs(server: Server, number: int) -> None:
    await_registered(server.name_server)
    assert "127.0.0.1:9876" in EXAMPLES[number]
    program = EXAMPLES[number].replace("127.0.0.1:9876", server.name_server)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, f"{EXAMPLES[number]}\n{done.stdout}{done.stderr}"
    assert not done.stderr


@pytest.mark.parametrize("client", [PushConsumer, LitePullConsumer, PullConsumer])
def test_page_names_every_public_call(client: type[ClientObject]) -> None:
    for name, value in vars(client).items():
        if (
            not name.startswith("_")
            and (callable(value) or isinstance(value, property))
            and not hasattr(ConsumerMember, name)
        ):
            assert name == "settings" or re.search(rf"\b{name}\b", PAGE), f"docs/sdk/consumer.md does not name {name}"
