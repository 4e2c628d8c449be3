"""mqadmin's commands for access control print the same for Apache's broker and ours, and leave the same accounts in the files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.access.acl_editor import AccountChange, AclEditor
from broker.access.acl_folder import AclFolder
from headrace.protocol.acl_signature import ACCESS_KEY, SIGNATURE, sign
from headrace.protocol.request_code import RequestCode
from support.appliance import Appliance
from support.java import Java
from support.plain_client import PlainClient
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
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  defaultTopicPerm: DENY
  topicPerms:
  - topicA=DENY
"""
MORE = "accounts:\n- accessKey: another1\n  secretKey: secret-of-another\n"

COMMANDS = (
    "clusterAclConfigVersion -c DefaultCluster",
    "updateAclConfig -b {broker} -a account1 -s secret-1 -w 192.168.0.* -i DENY -u SUB -t topicA=DENY,topicB=PUB|SUB -g groupA=DENY -m false",
    "updateAclConfig -c DefaultCluster -a account2 -s secret-2 -m true",
    "updateAclConfig -b {broker} -a account1 -s secret-3 -t topicC=PUB",
    "updateAclConfig -b {broker} -a RocketMQ -s 12345678 -i PUB",
    "updateAclConfig -b {broker} -a another1 -s secret-4 -g groupA=SUB",
    "updateAclConfig -b {broker} -a account3 -s short",
    "updateAclConfig -b {broker} -a short -s secret-5",
    "updateAclConfig -b {broker} -a account3 -s secret-5 -t topicA",
    "updateAclConfig -b {broker} -a account3 -s secret-5 -g groupA=READ",
    "updateAclConfig -b {broker} -a account1 -s secret-5 -w 1.2.3",
    "deleteAclConfig -b {broker} -a account2",
    "deleteAclConfig -b {broker} -a account2",
    "deleteAclConfig -c DefaultCluster -a nobody12",
    "updateGlobalWhiteAddr -b {broker} -g 10.10.154.1,10.10.154.2",
    "updateGlobalWhiteAddr -c DefaultCluster -g 10.10.15.*",
    "updateGlobalWhiteAddr -b {broker} -g 10.10.16.* -p {more}",
    "updateGlobalWhiteAddr -b {broker} -g 10.10.16.* -p {home}/conf/acl/none.yml",
    "updateGlobalWhiteAddr -b {broker} -g 10.10.16.* -p /etc/passwd",
    "clusterAclConfigVersion -b {broker}",
)


class Made:
    """A broker with two ACL files."""

    def __init__(self, server: Server, home: Path, java: Java) -> None:
        self.server, self.home, self._java = server, home, java

    def mqadmin(self, command: str) -> str:
        fields = {"broker": self.server.broker, "home": self.home, "more": self.home / "conf" / "acl" / "more.yml"}
        arguments = [*command.format(**fields).split(), "-n", self.server.name_server]
        printed: str = self._java.call("mqadmin", arguments=arguments, errors=True)
        return printed

    def files(self) -> dict[str, Any]:
        """What the files hold, without the times of their versions."""
        found = {}
        for path in sorted((self.home / "conf").rglob("*.yml")):
            content = yaml.safe_load(path.read_text())
            for version in content.get("dataVersion", ()):
                version["timestamp"] = 0
            found[path.name] = content
        return found


def write_files(home: Path) -> Path:
    for path, text in ((home / "conf" / "plain_acl.yml", PLAIN), (home / "conf" / "acl" / "more.yml", MORE)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return home


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Made, Made]]:
    """Apache's broker and ours, and mqadmin that signs as an administrator."""
    folder = tmp_path_factory.mktemp("acl-commands")
    tools = folder / "tools"
    (tools / "conf").mkdir(parents=True)
    (tools / "conf" / "tools.yml").write_text("accessKey: administrator\nsecretKey: secret-of-admin\n")
    home = write_files(folder / "home")
    write_files(folder / "ours")
    with (
        Java(tools) as java,
        disposable(Reference(folder / "apache", settings=SETTINGS, more=(f"--home={home}",))) as apache,
        disposable(Appliance(folder / "ours", settings=SETTINGS)) as ours,
    ):
        for server in (apache, ours):
            await_registered(server.name_server)
        yield Made(apache, home, java), Made(ours, folder / "ours", java)


_MASKS = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"secretKey=(?!null)[^ ,]+ cannot"), "secretKey=*** cannot"),  # ours does not repeat it
    (re.compile(r"account \S+: (?=Netaddress)"), ""),  # ours names the account
    (re.compile(r"@[0-9a-f]+$"), "@HASH"),
    (re.compile(r" +"), " "),
)
_TRACE = re.compile(r"\s+at |\s+\.\.\. \d+ more|For more information|See http")


def masked(made: Made, printed: str) -> list[str]:
    """The printed lines, with masked values that differ between any two brokers."""
    lines = []
    for line in printed.replace(str(made.home), "HOME").splitlines():
        if line.strip() and not _TRACE.match(line):
            for pattern, mask in _MASKS:
                line = pattern.sub(mask, line)  # noqa: PLW2901
            lines.append(line.strip())
    return lines


@pytest.mark.slow
def test_commands_print_the_same_and_leave_the_same_files(both: tuple[Made, Made]) -> None:
    differ: dict[str, Any] = {}
    printed = 0
    for command in COMMANDS:
        apaches, ours = (masked(made, made.mqadmin(command)) for made in both)
        if sorted(apaches) != sorted(ours):
            differ[command] = {"apache": apaches, "ours": ours}
        files = [made.files() for made in both]
        if files[0] != files[1]:
            differ[f"files after {command}"] = {"apache": files[0], "ours": files[1]}
            break
        printed += bool(apaches)
    assert not differ, json.dumps(differ, indent=1)
    assert printed == len(COMMANDS)


def is_accepted(server: Server, access_key: str, secret: str) -> bool:
    ext = {ACCESS_KEY: access_key}
    with PlainClient(server.broker) as client:
        return client.ask(RequestCode.GET_ALL_TOPIC_CONFIG, {**ext, SIGNATURE: sign(secret, ext)}).code == 0


@pytest.mark.slow
def test_files_are_read_by_the_other_broker(both: tuple[Made, Made]) -> None:
    apache, ours = both
    secret = "'quoted: and # strange"
    AclEditor(AclFolder(apache.home)).put_account(AccountChange("written-by-us", secret))
    # Apache's looks every five seconds, ours every second.
    wait_until(lambda: is_accepted(apache.server, "written-by-us", secret), 60, "Apache's broker has read our file")
    apache.mqadmin("updateAclConfig -b {broker} -a written-by-apache -s 'secret:#1")
    text = (apache.home / "conf" / "plain_acl.yml").read_text()
    (ours.home / "conf" / "plain_acl.yml").write_text(text)
    wait_until(
        lambda: is_accepted(ours.server, "written-by-apache", "'secret:#1"), 60, "our broker has read Apache's file"
    )
    assert is_accepted(ours.server, "written-by-us", secret)
