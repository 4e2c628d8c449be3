"""Every example in the pages of the Python client runs as printed, at both brokers."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace import Admin, Producer, TransactionProducer
from headrace.client.cluster.lifecycle import ClientObject
from headrace.sync import Admin as SyncAdmin
from support.not_served import NOT_SERVED
from support.sdk import await_registered
from support.servers import Server, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("producer", "transactions", "admin")
EXAMPLE = re.compile(r"(?:<!-- needs: (?P<needs>[\w -]+) -->\n)?```python\n(?P<code>.*?)```", re.DOTALL)


@dataclass
class Example:
    """An example program of a page; `needs` names the features that the server must support."""

    name: str
    code: str
    needs: str | None


def examples() -> list[Example]:
    found = []
    for page in PAGES:
        text = (ROOT / "docs" / "sdk" / f"{page}.md").read_text()
        found += [
            Example(f"{page}-{at}", one["code"], one["needs"]) for at, one in enumerate(EXAMPLE.finditer(text), 1)
        ]
    return found


RUNS = [
    pytest.param(server, example, id=f"{server}-{example.name}")
    for server in ("reference", "headrace")
    for example in examples()
    if server == "reference" or example.needs not in NOT_SERVED
]


@pytest.fixture(scope="module")
def registered(server: Server) -> None:
    """The broker is known, and has the topic that the first example of admin.md creates for the others."""
    await_registered(server.name_server)
    with SyncAdmin(server.name_server) as admin:
        admin.create_topic("Orders", queues=8)
        wait_until(lambda: "Orders" in admin.topics(), 60, "the name server knows the topic")


@pytest.mark.parametrize(("server", "example"), RUNS, indirect=["server"], scope="session")
def test_example_runs(server: Server, registered: None, example: Example) -> None:
    assert "127.0.0.1:9876" in example.code
    program = example.code.replace("127.0.0.1:9876", server.name_server)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, f"{example.code}\n{done.stdout}{done.stderr}"
    assert not done.stderr


@pytest.mark.parametrize(
    ("page", "client"), [("admin", Admin), ("producer", Producer), ("transactions", TransactionProducer)]
)
def test_page_names_every_public_call(page: str, client: type[ClientObject]) -> None:
    text = (ROOT / "docs" / "sdk" / f"{page}.md").read_text()
    for name, value in vars(client).items() if client is not Admin else [(n, getattr(client, n)) for n in dir(client)]:
        if name.startswith("_") or not callable(value):
            continue
        if name not in ("start", "close", "publish_topics", "check_transaction", "send_half", "end_half", "flush"):
            assert re.search(rf"\b{name}\b", text), f"docs/sdk/{page}.md does not name {name}"
