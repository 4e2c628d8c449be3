"""`headrace doctor security` reports which operations are exposed, to whom, and how to restrict them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.cli.commands.doctor.security import command
from appliance.configuration_reader import Sources, read_configuration
from appliance.security_report import is_loopback, security_report
from support.certificates import Certificates

ACCOUNTS = """\
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  admin: true
- accessKey: orders-app
  secretKey: too-short
- accessKey: billing
  secretKey: a-long-secret-that-nobody-knows
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder


def opened(data: Path, *settings: str, host: str = "0.0.0.0", broker_conf: Path | None = None) -> dict[str, list[str]]:
    """The open findings of each section."""
    sources = Sources(str(data), broker_conf=broker_conf and str(broker_conf), settings=settings, host=host)
    return {
        section.title: [finding.text for finding in section.findings if finding.advice]
        for section in security_report(read_configuration(sources))
    }


def acl(data: Path, mode: int = 0o600) -> str:
    """Writes the accounts; returns the setting that enables them."""
    file = data / "conf" / "plain_acl.yml"
    file.parent.mkdir()
    file.write_text(ACCOUNTS)
    file.chmod(mode)
    return "aclEnable=true"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost"])
def test_nothing_is_open_on_loopback_addresses(data: Path, host: str) -> None:
    assert is_loopback(host)
    assert all(not texts for texts in opened(data, host=host).values())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "no-such-host.invalid"])
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_default_configuration_on_all_addresses_is_open_for_clients_but_not_for_administration(data: Path) -> None:
    found = opened(data)
    broker = found["broker 0.0.0.0:10911, VIP channel 0.0.0.0:10909"]
    assert any("send, pull and read all messages (aclEnable=false)" in text for text in broker)
    assert any("plain text" in text for text in broker)
    assert found["broker HA 0.0.0.0:10912"] == ["anyone who can reach the port may copy all messages"]
    assert not any("administer" in text for texts in found.values() for text in texts)


def test_unauthenticated_administration_is_open_on_broker_and_name_server(data: Path) -> None:
    found = opened(data, "allowUnauthenticatedAdmin=true")
    for title in ("broker 0.0.0.0:10911, VIP channel 0.0.0.0:10909", "name server 0.0.0.0:9876"):
        assert any("allowUnauthenticatedAdmin=true" in text for text in found[title]), found


def test_admin_allow_of_everyone_is_open(data: Path) -> None:
    assert any(
        "adminAllow=0.0.0.0/0" in text for text in opened(data, "adminAllow=0.0.0.0/0")["name server 0.0.0.0:9876"]
    )
    found = opened(data, "adminAllow=10.0.0.0/8")
    assert not any("administer" in text for texts in found.values() for text in texts)


def test_weak_secrets_and_readable_acl_files_are_found_without_printing_a_secret(data: Path) -> None:
    setting = acl(data, 0o644)
    found = opened(data, setting)
    texts = " ".join(found["ACL files of broker"])
    assert "account RocketMQ has a secret key that is publicly known" in texts
    assert "account orders-app has a secret key of fewer than 16 characters" in texts
    assert "plain_acl.yml: other users may read or change secret keys (mode 0644)" in texts
    assert "1 global white address" in texts
    assert "billing" not in texts
    report = str(security_report(read_configuration(Sources(str(data), settings=(setting,)))))
    for secret in ("12345678", "too-short", "a-long-secret"):
        assert secret not in report


def test_invalid_acl_file_is_a_finding(data: Path) -> None:
    setting = acl(data)
    (data / "conf" / "plain_acl.yml").write_text("accounts: [")
    assert any("cannot be read" in text for text in opened(data, setting)["ACL files of broker"])


def test_files_that_others_may_change_are_found(data: Path) -> None:
    conf = data / "broker.conf"
    conf.write_text("brokerName=a\n")
    conf.chmod(0o666)
    data.chmod(0o777)
    texts = " ".join(opened(data, broker_conf=conf)["files"])
    assert "broker.conf: other users may change options (mode 0666)" in texts
    assert "other users may change the store (mode 0777)" in texts


def test_certificates_that_expire_soon_are_open_and_others_are_listed(data: Path) -> None:
    made = Certificates(data.parent)
    made.issue("soon", days=20, for_server=True)
    properties = data.parent / "tls.properties"
    properties.write_text("".join(f"{key}={text}\n" for key, text in made.properties("soon").items()))
    setting = f"tlsConfigFile={properties}"
    [text] = opened(data, setting, host="127.0.0.1")["certificates"]
    assert text.startswith(f"certificate {data.parent}/soon.pem expires in 19 days (")
    sources = Sources(str(data), settings=(setting,))
    [section] = [each for each in security_report(read_configuration(sources)) if each.title == "certificates"]
    assert [finding.text.partition(" expires")[0] for finding in section.findings] == [
        f"certificate {data.parent}/{name}.pem" for name in ("soon", "ca")
    ]


def test_command_prints_how_to_close_what_is_open_and_fails(data: Path) -> None:
    result = CliRunner().invoke(command, ["--data", str(data), "--host", "0.0.0.0"], standalone_mode=False)
    assert result.return_value == 1
    assert "  OPEN  anyone who can reach the port may send" in result.output
    assert " fix: set aclEnable=true" in result.output
    result = CliRunner().invoke(command, ["--data", str(data)], standalone_mode=False)
    assert (result.return_value, result.output.splitlines()[-1]) == (0, "no open findings")


def test_console_on_other_addresses_is_open_without_https(data: Path) -> None:
    assert opened(data)["console 127.0.0.1:8080"] == []
    setting = "consoleHost=192.0.2.1"
    [text] = opened(data, setting)["console 192.0.2.1:8080"]
    assert "passwords and sessions can be read" in text
    [text] = opened(data, setting, "consoleTrustedProxies=192.0.2.7")["console 192.0.2.1:8080"]
    assert "clients that bypass the proxies (192.0.2.7) use plain HTTP" in text
    assert not any(title.startswith("console") for title in opened(data, setting, "consoleEnable=false"))


def test_file_with_the_client_secret_of_openid_connect_that_others_may_read_is_found(data: Path) -> None:
    secret, toml = data / "client-secret", data / "appliance.toml"
    secret.write_text("hidden-secret-key\n")
    toml.write_text(
        'consoleOidcIssuer = "https://sso.example"\nconsoleOidcClientId = "console"\nconsoleOidcViewers = "staff"\n'
        f'consoleOidcClientSecretFile = "{secret}"\n'
    )

    def report() -> str:
        return str(security_report(read_configuration(Sources(str(data), appliance_toml=str(toml)))))

    secret.chmod(0o640)
    assert "other users may read or change the console's client secret at the OpenID provider (mode 0640)" in report()
    assert "hidden-secret-key" not in report()
    secret.chmod(0o600)
    assert "client secret" not in report()


def test_file_with_the_console_s_secret_key_that_others_may_read_is_found_without_printing_it(data: Path) -> None:
    toml = data / "appliance.toml"
    toml.write_text('consoleAccessKey = "operator"\nconsoleSecretKey = "hidden-secret-key"\n')
    toml.chmod(0o644)

    def report() -> str:
        return str(security_report(read_configuration(Sources(str(data), appliance_toml=str(toml)))))

    assert "other users may read or change the console's secret key (mode 0644)" in report()
    assert "hidden-secret-key" not in report()
    toml.chmod(0o600)
    assert "the console's secret key" not in report()
    toml.write_text("host = '127.0.0.1'\n")
    toml.chmod(0o666)
    assert "appliance.toml: other users may change options (mode 0666)" in report()
