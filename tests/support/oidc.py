"""A real OpenID provider for tests (`tests/interop/oidc`), and a browser that logs in there."""

import http.client
import json
import subprocess
from collections.abc import Mapping
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from support.console import Browser, Page
from support.other_clients import oidc_provider

PROXIED: Final = "https://console.example/headrace"
"""The console's address behind a proxy."""
CLIENT_ID: Final = "headrace console"
_MOST_REDIRECTIONS: Final = 8
SECRET: Final = "a secret: with%signs+and&more"
ALICE: Final = {
    "sub": "4711",
    "name": "Alice Liddell",
    "preferred_username": "alice",
    "email": "alice@example.org",
    "groups": ["staff", "cn=ops,dc=example"],
}


class Provider:
    """The provider's process. It sends browsers back to a console on any port of this machine, or behind a proxy."""

    def __init__(self, **client: Any) -> None:
        client = {
            "client_id": CLIENT_ID,
            "client_secret": SECRET,
            "application_type": "native",  # any port
            "redirect_uris": [f"{origin}/login/oidc/callback" for origin in ("http://127.0.0.1", PROXIED)],
            **client,
        }
        self._process = subprocess.Popen(
            [*oidc_provider(), json.dumps(client)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(json.loads(self._process.stdout.readline())["port"])
        self.issuer = f"http://127.0.0.1:{self.port}"
        self.set(ALICE)

    def set(self, account: dict[str, Any] | None = None, **falsify: Any) -> None:
        """Changes the account that logs in, if one is given, and what is falsified."""
        body = {"falsify": falsify} | ({} if account is None else {"account": account})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", "/test", json.dumps(body))
        assert connection.getresponse().status == http.client.OK
        connection.close()

    def options(self, folder: Path) -> dict[str, str]:
        """The options of a console that uses it; the client secret is written into the folder."""
        secret = folder / "client-secret"
        secret.write_text(SECRET + "\n")
        secret.chmod(0o600)
        return {
            "console_oidc_issuer": self.issuer,
            "console_oidc_name": "Example SSO",
            "console_oidc_client_id": CLIENT_ID,
            "console_oidc_client_secret_file": str(secret),
            "console_oidc_viewers": "staff",
            "console_oidc_operators": "cn=ops,dc=example; others",
            "console_oidc_admins": "platform",
        }

    def approve(self, login_url: str) -> str:
        """What a browser does at the provider's page: the URL to which it is sent back."""
        cookies: dict[str, str] = {}
        url = login_url
        for _ in range(_MOST_REDIRECTIONS):
            if not url.startswith(self.issuer):
                return url
            parts = urlsplit(url)
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())} if cookies else {}
            connection.request("GET", f"{parts.path}?{parts.query}", headers=sent)
            answer = connection.getresponse()
            for header in answer.headers.get_all("set-cookie", []):
                cookies.update({name: morsel.value for name, morsel in SimpleCookie(header).items()})
            content = answer.read().decode(errors="replace")
            assert answer.status == http.client.SEE_OTHER, content
            location = answer.headers["location"]
            url = location if "://" in location else self.issuer + location
            connection.close()
        raise AssertionError(f"the provider redirects for ever: {url}")

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def begin(browser: Browser, path: str = "") -> str:
    """Begins a login: the provider's URL to which the browser is sent."""
    page = browser.get(f"/login/oidc{path}")
    assert page.status == http.client.SEE_OTHER, page.text
    return page.headers["location"]


def come_back(browser: Browser, url: str, headers: Mapping[str, str] | None = None) -> Page:
    """The console's answer to a browser that comes back from the provider."""
    parts = urlsplit(url)
    assert parts.port == browser.port
    return browser.get(f"{parts.path.removeprefix(browser.base_path)}?{parts.query}", headers)


def log_in(browser: Browser, provider: Provider, path: str = "") -> Page:
    """A whole login; the console's last answer."""
    return come_back(browser, provider.approve(begin(browser, path)))
