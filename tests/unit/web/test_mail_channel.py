"""Alerts by mail, with a mail server that keeps what it is sent."""

import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from appliance.certificates import Authority
from support.certificates import Certificates
from support.console import RunningConsole
from support.smtp_server import SmtpServer
from web.alerts.channels import Mail, NotDelivered
from web.alerts.evaluator import AlertEvent

LATE = AlertEvent(1_764_000_000.0, "迟到", "billing", True, 400, "迟到: billing firing, lag-time=400 threshold=300")
ENDED = AlertEvent(1_764_000_060.0, "迟到", "orders", False, 0, "迟到: orders resolved, lag-time=0 threshold=300")
LOGIN = {"user": "console", "password": SmtpServer.PASSWORD}
TWO = ("ops@a.test", "night@b.test")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    found = Certificates(tmp_path_factory.mktemp("certificates"))
    found.issue("stranger-server", Authority("Other CA", 400), for_server=True)
    return found


@pytest.fixture(autouse=True)
def trust(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine trusts the test's authority."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.path("ca.pem")))


def channel(server: SmtpServer, security: str, **more: Any) -> Mail:
    return Mail("mail", "127.0.0.1", "headrace@a.test", TWO, server.port, security, **more)


def refusal(text: str) -> AbstractContextManager[object]:
    return pytest.raises(NotDelivered, match=text)


@pytest.mark.parametrize(
    ("security", "login"), [("none", {}), ("starttls", {}), ("starttls", LOGIN), ("tls", {}), ("tls", LOGIN)]
)
def test_alerts_are_mailed(certificates: Certificates, security: str, login: dict[str, str]) -> None:
    with SmtpServer(security, certificates.server()) as server:
        mail = channel(server, security, **login)
        assert mail.problem() is None
        mail.send([LATE, ENDED])
    [sent] = server.mails
    assert (sent.sender, sent.recipients) == ("headrace@a.test", TWO)
    assert (sent.is_encrypted, sent.login) == (security != "none", tuple(login.values()) or None)
    assert (sent.message["From"], sent.message["To"]) == ("headrace@a.test", "ops@a.test, night@b.test")
    assert sent.message["Subject"] == f"2 alerts, {LATE.text}"
    assert sent.message.get_content().splitlines() == [f"FIRING  {LATE.text}", f"resolved  {ENDED.text}"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize("certificate", ["stranger-server", "expired-server"])
def test_mail_is_not_sent_to_a_server_whose_certificate_is_refused(
    certificates: Certificates, security: str, certificate: str
) -> None:
    with (
        SmtpServer(security, certificates.server(certificate)) as server,
        refusal("certificate verify failed"),
    ):
        channel(server, security, **LOGIN).send([LATE])
    assert server.mails == []


def test_mail_is_not_sent_without_the_encryption_that_is_configured() -> None:
    with SmtpServer("none") as server, refusal("STARTTLS"):
        channel(server, "starttls", **LOGIN).send([LATE])
    assert server.mails == []


def test_mail_with_a_wrong_password_is_not_delivered(certificates: Certificates) -> None:
    with SmtpServer("tls", certificates.server()) as server, refusal("535"):
        channel(server, "tls", user="console", password="another").send([LATE])
    assert server.mails == []


def test_recipients_whom_the_server_refuses_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with SmtpServer("none", refused=frozenset({"night@b.test"})) as server:
        channel(server, "none").send([LATE])
        assert "alert mail refused channel='mail' recipient='night@b.test' error='550 no such mailbox'" in caplog.text
    assert [mail.recipients for mail in server.mails] == [("ops@a.test",)]
    with SmtpServer("none", refused=frozenset(TWO)) as server, refusal("no such mailbox"):
        channel(server, "none").send([LATE])
    assert server.mails == []
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.slow
def test_channel_of_the_console_sends_a_mail_when_it_is_tested(certificates: Certificates, tmp_path: Path) -> None:
    with SmtpServer("starttls", certificates.server()) as server, RunningConsole(tmp_path) as console:
        admin = console.administrator()
        form = {"name": "mail", "host": "127.0.0.1", "port": str(server.port), "security": "starttls", **LOGIN}
        people = {"sender": "headrace@a.test", "recipients": ", ".join(TWO)}
        assert admin.send("/alerts/mails", {**form, **people}, "/alerts").status == 303
        tested = admin.send("/alerts/channels/mail/test", {}, "/alerts")
        assert tested.status == 303, tested.cause
        assert LOGIN["password"] not in admin.get("/alerts/channels/mail").text + admin.get("/audit").text
    [sent] = server.mails
    assert (sent.sender, sent.recipients, sent.login) == ("headrace@a.test", TWO, tuple(LOGIN.values()))
