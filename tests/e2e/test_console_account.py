"""The console's own account: it works at brokers that check accounts and require TLS; without one, pages name what to set."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from support.appliance import HEADRACE, Appliance
from support.console import Browser, first_administrator, is_up
from support.headrace_process import headrace
from support.servers import free_port, wait_until

pytestmark = pytest.mark.slow
SECRET = "secret-of-the-console"
PLAIN = f"accounts:\n- accessKey: administrator\n  secretKey: {SECRET}\n  admin: true\n"
PAGES = ("/", "/cluster", "/topics?kind=system", "/groups", "/producers", "/acl")
ADVICE = "set consoleAccessKey and consoleSecretKey in appliance.toml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console-account")


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def appliance(folder: Path, port: int) -> Iterator[Appliance]:
    """With accounts and TLS; the console's account is in appliance.toml."""
    data, toml, tls = folder / "data", folder / "appliance.toml", folder / "tls"
    (data / "conf").mkdir(parents=True)
    (data / "conf" / "plain_acl.yml").write_text(PLAIN)
    done = headrace("tls", "init", tls)
    assert done.returncode == 0, done.stderr
    toml.write_text(
        f'tlsMode = "enforcing"\ntlsConfigFile = "{tls}/tls.properties"\n'
        f'consoleAccessKey = "administrator"\nconsoleSecretKey = "{SECRET}"\n'
    )
    settings = {"aclEnable": "true", "mappedFileSizeCommitLog": "16777216"}
    with Appliance(data, settings=settings, more=["--config", str(toml)], console_port=port) as appliance:
        wait_until(lambda: is_up(port), 30, "console")
        yield appliance


@contextmanager
def console_alone(appliance: Appliance, folder: Path, **environment: str) -> Iterator[Browser]:
    """`headrace console` with these variables, as a new administrator."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ROCKETMQ_")}
    tls = {"ROCKETMQ_TLS_ENABLE": "true", "ROCKETMQ_TLS_CA": str(folder.parent / "tls" / "ca.pem")}
    port = free_port()
    command = [HEADRACE, "console", "--namesrv", appliance.name_server, "--data", folder, "--port", str(port)]
    with (folder.with_suffix(".log")).open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**own, **tls, **environment})
    try:
        wait_until(lambda: is_up(port), 60, "headrace console")
        yield first_administrator(folder, port)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def problems_of(browser: Browser) -> dict[str, str]:
    """By page what its problems are."""
    found = {}
    for path in PAGES:
        found[path] = browser.answered(path, {HTTPStatus.GATEWAY_TIMEOUT}).cause
    return found


def test_console_of_an_appliance_uses_the_account_of_its_configuration(
    appliance: Appliance, folder: Path, port: int
) -> None:
    admin = first_administrator(appliance.data / "console", port)
    assert problems_of(admin) == dict.fromkeys(PAGES, "")
    made = admin.send("/topics", {"topic": "Orders"})
    assert made.status == 303, made.cause
    assert "Orders" in admin.get("/topics").text
    shown = [admin.get(page).text for page in (*PAGES, f"/cluster/brokers/{appliance.broker}", "/audit", "/acl/new")]
    written = [path.read_text(errors="replace") for path in (appliance.data / "logs").iterdir()]
    status = appliance.run("status", "--json", "--data", str(appliance.data)).stdout
    assert not [text for text in (*shown, *written, appliance.log.read_text(), status) if SECRET in text]


def test_console_alone_uses_the_account_of_its_environment(appliance: Appliance, folder: Path) -> None:
    account = {"ROCKETMQ_ACCESS_KEY": "administrator", "ROCKETMQ_SECRET_KEY": SECRET}
    with console_alone(appliance, folder / "alone", **account) as admin:
        assert problems_of(admin) == dict.fromkeys(PAGES, "")
    log = (folder / "alone.log").read_text()
    assert SECRET not in log
    assert re.search(
        r"^\S+Z warning console\[\d+\] web\.application: console has no local user, ", log, re.MULTILINE
    ), log


@pytest.mark.parametrize(
    ("name", "account"),
    [
        ("none", {}),
        ("wrong", {"ROCKETMQ_ACCESS_KEY": "administrator", "ROCKETMQ_SECRET_KEY": "another-secret"}),
    ],
)
def test_pages_name_what_to_set_if_brokers_refuse_the_account(
    appliance: Appliance, folder: Path, name: str, account: dict[str, str]
) -> None:
    with console_alone(appliance, folder / name, **account) as admin:
        assert {path: ADVICE in cause for path, cause in problems_of(admin).items()} == dict.fromkeys(PAGES, True)
        assert ADVICE in admin.get("/api/v1/topics?kind=system").text
    assert "another-secret" not in (folder / f"{name}.log").read_text()
