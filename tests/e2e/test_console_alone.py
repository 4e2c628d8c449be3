"""`headrace console`, without an appliance: its options come from flags and from a file."""

import signal
import subprocess
from pathlib import Path

import pytest

from support.appliance import HEADRACE
from support.console import Browser, is_up
from support.headrace_process import headrace
from support.oidc import Provider, log_in
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
COMMAND = ("console", "--namesrv", "127.0.0.1:1", "--data")


def key_of(name: str) -> str:
    """`consoleOidcIssuer` for `console_oidc_issuer`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def test_users_of_an_openid_provider_log_in_to_a_console_without_an_appliance(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "console.toml"
    with Provider() as provider:
        options = provider.options(tmp_path)
        file.write_text("consolePort = 1\n" + "".join(f'{key_of(name)} = "{text}"\n' for name, text in options.items()))
        command = [HEADRACE, *COMMAND, tmp_path / "console", "--config", file, "--port", str(port)]
        with (tmp_path / "console.log").open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            wait_until(lambda: is_up(port), 60, "headrace console")
            browser = Browser(port)
            assert "Example SSO" in browser.get("/login").text
            assert log_in(browser, provider).status == 303
            account = browser.get("/account").text
            assert "oidc:alice" in account
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('consoleOidcIssuer = "https://sso.example.org"', "consoleOidcIssuer requires consoleOidcClientId"),
        ('consoleOidcIsuer = "https://sso.example.org"', "did you mean consoleOidcIssuer?"),
        ("listenPort = 10911", "unknown key listenPort"),
        ("consolePort = 0", "consolePort=0: expected a number from 1 to 65535"),
    ],
)
def test_file_with_an_error_ends_the_console(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "console.toml"
    file.write_text(text)
    done = headrace(*COMMAND, tmp_path / "console", "--config", file)
    assert done.returncode == 2, done.stderr
    assert problem in done.stderr
    assert not (tmp_path / "console").exists()
