"""Alerts to a webhook over TLS: its certificate is checked before anything is sent."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from appliance.certificates import Authority
from support.certificates import Certificates
from web.alerts.channels import NotDelivered, Webhook
from web.alerts.evaluator import AlertEvent

EVENT = AlertEvent(1_764_000_000.0, "late", "billing", True, 400, "late: billing firing, lag-time=400 threshold=300")


class Hook(HTTPServer):
    """Keeps the tokens of what is posted."""

    def __init__(self, certificates: Certificates, name: str) -> None:
        tokens: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                tokens.append(self.headers["Authorization"])
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)
        self.tokens = tokens
        self.socket = certificates.server(name).wrap_socket(self.socket, server_side=True)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def channel(self) -> Webhook:
        return Webhook("ops", f"https://127.0.0.1:{self.server_port}/alert", "s3cret")

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


@pytest.fixture
def hook(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Hook]]:
    """Starts a hook with a certificate. This machine trusts the test's authority."""
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    certificates.issue("stranger-server", Authority("Other CA", 400), for_server=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.path("ca.pem")))
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(Hook(certificates, name))


def test_webhook_posts_over_tls(hook: Callable[[str], Hook]) -> None:
    running = hook("server")
    running.channel.send([EVENT])
    assert running.tokens == ["Bearer s3cret"]


@pytest.mark.parametrize("certificate", ["stranger-server", "expired-server"])
def test_webhook_whose_certificate_is_refused_gets_nothing(hook: Callable[[str], Hook], certificate: str) -> None:
    running = hook(certificate)
    with pytest.raises(NotDelivered, match="certificate verify failed"):
        running.channel.send([EVENT])
    assert running.tokens == []
