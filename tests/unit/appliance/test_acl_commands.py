import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance import service_files
from appliance.cli.main import headrace
from appliance.errors import ApplianceError

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*arguments: str, home: Path = tmp_path) -> Result:
        result = CliRunner().invoke(headrace, ["acl", *arguments, "--data", str(home)], standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return result

    return run


def test_generated_secret_is_printed_once_and_never_listed(run: Run, tmp_path: Path) -> None:
    said = run("add", "account1", "--topic", "Orders=PUB|SUB", "--group-default", "sub").output
    first, second = said.splitlines()
    path = tmp_path / "conf" / "plain_acl.yml"
    assert first == f"account1 added to {path}"
    secret = second.removeprefix("secret key: ")
    assert len(secret) >= 32
    assert secret in path.read_text()
    changed = run("add", "account1", "--topic-default", "PUB").output
    assert changed == f"account1 changed in {path}\n"
    assert secret in path.read_text()
    for listed in (run("list").output, run("list", "--json").output):
        assert "account1" in listed
        assert secret not in listed
    assert json.loads(run("list", "--json").output)["accounts"]["account1"] == {
        "admin": False, "defaultTopicPerm": "PUB", "defaultGroupPerm": "SUB", "topicPerms": ["Orders=PUB|SUB"],
        "groupPerms": [], "whiteRemoteAddress": "", "file": str(path),
    }  # fmt: skip


def test_given_secret_is_not_printed(run: Run) -> None:
    assert "my-own-secret" not in run("add", "account1", "--secret", "my-own-secret", "--admin").output
    assert run("list").output.splitlines()[1].split()[:4] == ["account1", "yes", "all", "all"]


def test_secret_is_read_from_standard_input(tmp_path: Path) -> None:
    arguments = ["acl", "add", "account1", "--secret", "-", "--data", str(tmp_path)]
    CliRunner().invoke(headrace, arguments, input="my-own-secret\n", standalone_mode=False)
    assert "secretKey: my-own-secret\n" in (tmp_path / "conf" / "plain_acl.yml").read_text()


def test_account_is_removed(run: Run) -> None:
    assert run("list").output == "no accounts; add one with: headrace acl add ACCOUNT\n"
    run("add", "account1")
    assert run("remove", "account1").output.startswith("account1 removed from ")
    with pytest.raises(ApplianceError, match="there is no account account1; existing accounts: none"):
        run("remove", "account1")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("account1", "pub", "Orders"), 0, "allowed: topicPerms: Orders=PUB"),
        (("account1", "SUB", "Orders"), 1, "denied: topicPerms: Orders=PUB"),
        (("account1", "pub", "Other"), 1, "denied: defaultTopicPerm: DENY"),
        (("account1", "sub", "group:mine"), 0, "allowed: defaultGroupPerm: SUB"),
        (("account1", "sub", "%RETRY%mine"), 0, "allowed: defaultGroupPerm: SUB"),
        (("account1", "admin"), 1, "denied: admin: false"),
        (("account1", "admin", "--from", "10.1.2.3"), 0, "allowed: whiteRemoteAddress contains 10.1.2.3"),
        (("nobody12", "pub", "Orders"), 1, "denied: there is no account nobody12"),
    ],
)
def test_check_names_the_rule_that_decides(run: Run, arguments: tuple[str, ...], code: int, said: str) -> None:
    run("add", "account1", "--topic", "Orders=PUB", "--group-default", "SUB", "--white-address", "10.1.*.*")
    result = run("check", *arguments)
    assert result.return_value == code
    assert result.output.startswith(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "short"), "the access key must have at least 7 characters"),
        (("add", "account1", "--secret", "short"), "--secret must have at least 7 characters"),
        (("add", "account1", "--topic", "Orders"), "--topic Orders: expected NAME=PERMISSION, such as Orders=PUB"),
        (("add", "account1", "--white-address", "1.2.3"), "--white-address 1.2.3: expected an address or a pattern"),
        (("check", "account1", "pub"), "pub needs a topic or group:NAME"),
        (("list", "--home", "/no/such/folder"), "/no/such/folder: no such folder"),
    ],
)
def test_mistake_is_one_line_and_changes_nothing(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ApplianceError, match=said.replace("(", r"\(")):
        run(*arguments)
    assert not (tmp_path / "conf" / "plain_acl.yml").exists()


def test_broker_must_be_named_if_there_are_several(run: Run, tmp_path: Path) -> None:
    for name in ("broker-a", "broker-b"):
        (tmp_path / name / "store" / "config").mkdir(parents=True)
    with pytest.raises(ApplianceError, match="has several brokers; choose one with --broker: broker-a, broker-b"):
        run("add", "account1")
    assert (
        f"added to {tmp_path / 'broker-b' / 'conf' / 'plain_acl.yml'}"
        in run("add", "account1", "--broker", "broker-b").output
    )


def test_invalid_file_is_reported_with_its_name(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "conf" / "plain_acl.yml"
    path.parent.mkdir()
    path.write_text("accounts: [")
    with pytest.raises(ApplianceError, match=rf"{path}: not valid YAML"):
        run("list")


@pytest.mark.parametrize(("data", "configuration"), [("headrace", ""), ("headrace-east", "east"), ("chosen", "")])
def test_accounts_of_an_installed_service_are_where_its_configuration_says(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str, configuration: str
) -> None:
    monkeypatch.setattr(service_files, "SERVICE_DATA", tmp_path / "headrace")
    monkeypatch.setattr(service_files, "SERVICE_CONFIGURATION", tmp_path / "etc")
    monkeypatch.setattr(service_files, "UNITS", tmp_path / "units")
    drop_ins = tmp_path / "units" / "headrace.service.d"
    for folder in (tmp_path / data, tmp_path / "etc" / configuration, drop_ins, tmp_path / "mq"):
        folder.mkdir(parents=True)
    if data == "chosen":
        (drop_ins / "data.conf").write_text(f"[Service]\nEnvironment=HEADRACE_DATA={tmp_path / 'chosen'}\n")
    for name in ("appliance.toml", "namesrv.conf"):
        (tmp_path / "etc" / configuration / name).touch()
    conf = tmp_path / "etc" / configuration / "broker.conf"
    conf.write_text("rocketmq.acl.plain.file=conf/acl/plain_acl.yml\n")
    home = tmp_path / data
    assert run("add", "account1", home=home).output.startswith(f"account1 added to {home}/conf/acl/plain_acl.yml\n")
    conf.write_text(f"rocketmqHome={tmp_path / 'mq'}\n")
    assert run("add", "account2", home=home).output.startswith(f"account2 added to {tmp_path}/mq/conf/plain_acl.yml\n")
    assert run("add", "account3", "--plain-file", "conf/mine.yml", home=home).output.startswith(
        f"account3 added to {tmp_path}/mq/conf/mine.yml\n"
    )
    assert run("add", "account4", "--home", str(home), home=home).output.startswith(
        f"account4 added to {home}/conf/plain_acl.yml\n"
    )
    conf.write_text(f"rocketmqHome={tmp_path / 'typo'}\n")
    with pytest.raises(ApplianceError, match=f"{tmp_path}/typo: no such folder; check rocketmqHome"):
        run("add", "account5", home=home)
