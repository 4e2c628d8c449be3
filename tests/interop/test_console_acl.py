"""Pages of access control over Apache's broker and ours: what the console changes is in their files and seen by mqadmin, and the reverse."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import Credentials
from support.appliance import Appliance
from support.console import Browser, RunningConsole
from support.java import Java
from support.reference import Reference, disposable
from support.sdk import await_registered
from support.servers import Server, wait_until

SETTINGS = {"aclEnable": "true", "brokerName": "guarded"}
PLAIN = """\
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: administrator
  secretKey: secret-of-admin
  admin: true
"""


class Guarded:
    """A broker with accounts, a console that signs as an administrator, and mqadmin that does."""

    def __init__(self, server: Server, home: Path, console: RunningConsole, java: Java) -> None:
        self.server, self._home, self._java = server, home, java
        self.browser: Browser = console.administrator()

    def mqadmin(self, *arguments: str) -> str:
        printed: str = self._java.call("mqadmin", arguments=[*arguments, "-n", self.server.name_server], errors=True)
        return printed

    def stored(self) -> dict[str, Any]:
        """What the broker's file holds."""
        content: dict[str, Any] = yaml.safe_load((self._home / "conf" / "plain_acl.yml").read_text())
        return content

    def account(self, access_key: str) -> dict[str, Any]:
        """The account in the file; empty if there is none."""
        return next((one for one in self.stored()["accounts"] if one["accessKey"] == access_key), {})

    def read(self) -> dict[str, Any]:
        """The page's data. It fails while the machine is too busy for the page's deadline."""
        answers: list[dict[str, Any]] = []

        def is_answered() -> bool:
            answer = self.browser.get("/api/v1/acl")
            if answer.status == 200 and answer.json()["brokers"]["rows"][0]["version"] is not None:
                answers.append(answer.json())
            return bool(answers)

        wait_until(is_answered, 60, "the accounts")
        return answers[0]

    def version(self) -> tuple[Any, ...]:
        """What changes with each change of the accounts."""
        row = self.read()["brokers"]["rows"][0]
        return row["version"], row["changed"], row["files"]


@pytest.fixture(scope="module", params=["reference", "headrace"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("console-acl")
    tools, home = folder / "tools", folder / "home"
    for path, text in (
        (tools / "conf" / "tools.yml", "accessKey: administrator\nsecretKey: secret-of-admin\n"),
        (home / "conf" / "plain_acl.yml", PLAIN),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    server: Reference | Appliance = (
        Reference(folder / "apache", settings=SETTINGS, more=(f"--home={home}",))
        if request.param == "reference"
        else Appliance(home, settings=SETTINGS)
    )
    credentials = Credentials("administrator", "secret-of-admin")
    (folder / "console").mkdir()
    with disposable(server), Java(tools) as java:
        await_registered(server.name_server)
        with RunningConsole(folder / "console", server.name_server, api_timeout=30, credentials=credentials) as console:
            yield Guarded(server, home, console, java)


def test_account_is_created_changed_and_deleted_in_the_broker_s_file(guarded: Guarded) -> None:
    before = guarded.version()
    form = {
        "access_key": "byconsole",
        "secret_key": "secret-by-console",
        "default_topic": "SUB",
        "topics": "Orders=PUB|SUB\r\nMail=DENY",
        "white_address": "192.168.0.*",
    }
    made = guarded.browser.send("/acl/accounts", form)
    assert made.status == 303, made.cause
    account = guarded.account("byconsole")
    assert (
        account["secretKey"],
        account["defaultTopicPerm"],
        account["topicPerms"],
        account["whiteRemoteAddress"],
    ) == (
        "secret-by-console",
        "SUB",
        ["Orders=PUB|SUB", "Mail=DENY"],
        "192.168.0.*",
    )
    assert guarded.version() != before
    changed = guarded.browser.send("/acl/accounts", {**form, "topics": "", "groups": "g=SUB"})
    assert changed.status == 303, changed.cause
    account = guarded.account("byconsole")
    assert (account["topicPerms"], account["groupPerms"]) == ([], ["g=SUB"])
    deleted = guarded.browser.send("/acl/accounts/byconsole/delete", {"confirm": "byconsole"})
    assert deleted.status == 303, deleted.cause
    assert guarded.account("byconsole") == {}


def test_changes_by_mqadmin_are_shown(guarded: Guarded) -> None:
    before = guarded.version()
    guarded.mqadmin(
        "updateAclConfig", "-b", guarded.server.broker, "-a", "bymqadmin", "-s", "secret-by-mqadmin", "-i", "PUB"
    )
    assert guarded.account("bymqadmin")

    wait_until(lambda: guarded.version() != before, 60, "the version that mqadmin made")
    page = guarded.read()
    row = next(one for one in page["accounts"]["rows"] if one["access_key"] == "bymqadmin")
    assert (row["default_topic"], page["problems"]) == ("PUB", [])
    assert "secret-by" not in guarded.browser.get("/acl").text


def test_white_addresses_are_replaced_in_the_broker_s_file(guarded: Guarded) -> None:
    done = guarded.browser.send("/acl/white-addresses", {"addresses": "10.1.0.*\r\n10.2.0.1"})
    assert done.status == 303, done.cause
    assert guarded.stored()["globalWhiteRemoteAddresses"] == ["10.1.0.*", "10.2.0.1"]
    assert guarded.browser.send("/acl/white-addresses", {"addresses": ""}).status == 303
    assert guarded.stored()["globalWhiteRemoteAddresses"] in ([], None)


def test_changed_account_keeps_its_secret_key(guarded: Guarded) -> None:
    answer = guarded.browser.send("/acl/accounts", {"access_key": "administrator", "admin": "true"})
    assert answer.status == 303, answer.cause
    account = guarded.account("administrator")
    assert (account["secretKey"], account["admin"]) == ("secret-of-admin", True)
