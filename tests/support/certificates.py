"""Certificates for tests: an authority, server and client certificates, expired ones, and those of an authority that nobody trusts."""

import ssl
from pathlib import Path

from appliance.certificates import Authority
from headrace.model.tls_settings import Identity, TlsSettings

HOSTS = ("localhost", "127.0.0.1")


class Certificates:
    """Files in `folder`, made at once. `client("known")` and so on are client contexts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trusted = Authority("Test CA", 400)
        self.trusted.save(folder / "ca.pem", folder / "ca.key")
        self.issue("server", for_server=True)
        self.issue("expired-server", days=-1, for_server=True)
        self.issue("known")
        self.issue("expired", days=-1)
        self.issue("stranger", Authority("Other CA", 400))

    def issue(
        self, file: str, authority: Authority | None = None, *, days: int = 90, for_server: bool = False, name: str = ""
    ) -> None:
        """Writes FILE.pem and FILE.key, with `name`, else FILE, as common name."""
        (authority or self.trusted).issue(
            self.path(f"{file}.pem"), self.path(f"{file}.key"), name or file, days,
            HOSTS if for_server else (), for_server=for_server,
        )  # fmt: skip

    def path(self, file: str) -> Path:
        """The path of a file."""
        return self.folder / file

    def properties(self, server: str = "server", client_auth: str = "none", **more: str) -> dict[str, str]:
        """The keys of a tls.properties."""
        return {
            "tls.test.mode.enable": "false",
            "tls.server.certPath": str(self.path(f"{server}.pem")),
            "tls.server.keyPath": str(self.path(f"{server}.key")),
            "tls.server.authClient": "true",
            "tls.server.trustCertPath": str(self.path("ca.pem")),
            "tls.server.need.client.auth": client_auth,
            **more,
        }

    def settings(self, mode: str = "permissive", server: str = "server", client_auth: str = "none") -> TlsSettings:
        """The settings of a server."""
        certificate, key, trust = (str(self.path(each)) for each in (f"{server}.pem", f"{server}.key", "ca.pem"))
        return TlsSettings(mode, Identity("tls.server.", certificate, key, "", trust), client_auth)

    def server(self, certificate: str = "server") -> ssl.SSLContext:
        """A server that asks for no certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(f"{certificate}.pem"), self.path(f"{certificate}.key"))
        return context

    def client(self, certificate: str = "", *, trust: str = "ca") -> ssl.SSLContext:
        """A client that verifies servers, and presents a certificate if one is named."""
        context = ssl.create_default_context(cafile=str(self.path(f"{trust}.pem")))
        if certificate:
            context.load_cert_chain(self.path(f"{certificate}.pem"), self.path(f"{certificate}.key"))
        return context


def trusting() -> ssl.SSLContext:
    """A client that verifies nothing."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
