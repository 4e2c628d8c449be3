"""An operator adds, changes and removes accounts while the appliance runs."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.protocol.acl_signature import ACCESS_KEY, SIGNATURE, sign
from headrace.protocol.request_code import RequestCode
from support.appliance import HEADRACE, Appliance
from support.plain_client import PlainClient
from support.reference import disposable
from support.servers import wait_until

pytestmark = pytest.mark.slow

DEADLINE_S = 30
Acl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def acl(data: Path) -> Acl:
    def run(*arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        command = [str(HEADRACE), "acl", *arguments, "--data", str(data)]
        return subprocess.run(command, check=check, capture_output=True, text=True, timeout=60)

    return run


@pytest.fixture
def appliance(data: Path, acl: Acl) -> Iterator[Appliance]:
    acl("add", "operator", "--secret", "operator-secret", "--admin")
    with disposable(Appliance(data, settings={"aclEnable": "true"})) as running:
        yield running


def send(appliance: Appliance, access_key: str, secret: str, topic: str) -> str:
    """Sends a signed message; the remark of the refusal, empty if it is stored."""
    ext = {
        "a": "producers", "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": "", "j": "0",
        "k": "false", "m": "false", ACCESS_KEY: access_key,
    }  # fmt: skip
    ext[SIGNATURE] = sign(secret, ext, b"body")
    with PlainClient(appliance.broker) as client:
        answer = client.ask(RequestCode.SEND_MESSAGE_V2, ext, b"body")
        return "" if answer.code == 0 else answer.remark or f"code {answer.code}"


def test_changes_to_accounts_take_effect_in_a_running_broker(appliance: Appliance, acl: Acl) -> None:
    assert "No acl config for account1" in send(appliance, "account1", "any-secret", "Orders")
    said = acl("add", "account1", "--topic", "Orders=PUB").stdout
    found = re.search(r"^secret key: (\S+)$", said, re.MULTILINE)
    assert found is not None
    secret = found.group(1)
    wait_until(lambda: send(appliance, "account1", secret, "Orders") == "", DEADLINE_S, "the account may send")
    assert "No default permission for topic:Others" in send(appliance, "account1", secret, "Others")
    acl("add", "account1", "--topic", "Orders=DENY")
    wait_until(
        lambda: "No default permission for topic:Orders" in send(appliance, "account1", secret, "Orders"),
        DEADLINE_S,
        "the account may not send any more",
    )
    assert acl("check", "account1", "pub", "Orders", check=False).stdout.startswith("denied: topicPerms: Orders=DENY")
    acl("remove", "account1")
    wait_until(
        lambda: "No acl config for account1" in send(appliance, "account1", secret, "Orders"),
        DEADLINE_S,
        "the account is unknown",
    )
    log = (appliance.data / "logs" / "headrace.log").read_text()
    assert secret not in log
    assert "operator-secret" not in log


def test_invalid_file_is_logged_once_and_the_previous_rules_stay(appliance: Appliance, data: Path) -> None:
    log = data / "logs" / "headrace.log"
    path = data / "conf" / "plain_acl.yml"
    before = path.read_text()
    path.write_text("accounts: [")
    wait_until(lambda: "ACL not reloaded" in log.read_text(), DEADLINE_S, "the error is logged")
    assert send(appliance, "operator", "operator-secret", "Orders") == ""
    path.write_text(before.replace("operator-secret", "another-secret"))
    wait_until(
        lambda: send(appliance, "operator", "another-secret", "Orders") == "", DEADLINE_S, "the repaired file is read"
    )
    assert log.read_text().count("ACL not reloaded") == 1


def test_broker_does_not_start_with_an_invalid_file(data: Path) -> None:
    path = data / "conf" / "plain_acl.yml"
    path.parent.mkdir()
    path.write_text("accounts:\n- accessKey: short\n  secretKey: 'secret-of-short'\n")
    with pytest.raises(AssertionError, match="headrace run ended with 3") as caught:
        Appliance(data, settings={"aclEnable": "true"})
    assert f"{path}: accounts: entry 1: accessKey is missing or shorter than 7 characters" in str(caught.value)
    assert "secret-of-short" not in str(caught.value)
