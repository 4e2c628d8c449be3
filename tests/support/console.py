"""A console as browsers see it: plain HTTP over http.client, without following redirects; and a console in a thread."""

import html
import http.client
import json
import os
import re
import threading
from collections.abc import Container, Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode

from headrace.client.settings import ClientConfig, Credentials
from support.servers import wait_until
from web import daemon
from web.application import ConsoleSettings
from web.config import ConsoleConfig
from web.listener import bind

PASSWORD: Final = "correct horse battery"


@dataclass(frozen=True)
class Page:
    """One answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cookies: tuple[str, ...] = ()
    """Every Set-Cookie header."""

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def cause(self) -> str:
        """What an error page says."""
        return html.unescape(
            " ".join(re.findall(r'<div class="problems" role="alert">(.*?)</div>', self.text, re.DOTALL))
        )

    def json(self) -> Any:
        return json.loads(self.body)


def get(port: int, path: str, headers: Mapping[str, str] | None = None) -> Page:
    """The answer to a GET."""
    return request("GET", port, path, headers=headers)


def request(
    method: str, port: int, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Page:
    """The answer to a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body=body, headers=dict(headers or {}))
        answer = connection.getresponse()
        headers = {key.lower(): value for key, value in answer.getheaders()}
        return Page(answer.status, headers, answer.read(), tuple(answer.headers.get_all("set-cookie", [])))
    finally:
        connection.close()


def is_up(port: int) -> bool:
    """Whether a console answers."""
    try:
        return get(port, "/static/icon.svg").status == http.client.OK
    except OSError:
        return False


class Browser:
    """A browser without scripts: cookies, forms with their CSRF token, no redirects."""

    def __init__(self, port: int, base_path: str = "") -> None:
        self.port = port
        self.base_path = base_path
        self.cookies: dict[str, str] = {}

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Page:
        """The answer to a GET."""
        return self._ask("GET", path, None, dict(headers or {}))

    def answered(self, path: str, late: Container[int] = (502, 503, 504)) -> Page:
        """The answer to a GET once its status is not one of `late`: on a busy machine brokers may not answer in time."""
        pages: list[Page] = []

        def is_answered() -> bool:
            pages.append(self.get(path))
            return pages[-1].status not in late

        wait_until(is_answered, 60, path)
        return pages[-1]

    def read(self, path: str) -> dict[str, Any]:
        """The API's answer for a page. It fails while the machine is too busy for the page's deadline."""
        answers: list[Page] = []

        def is_answered() -> bool:
            answers.append(self.get(f"/api/v1{path}"))
            return answers[-1].status == http.client.OK

        wait_until(is_answered, 60, path)
        body: dict[str, Any] = answers[-1].json()
        return body

    def post(self, path: str, form: Mapping[str, str] | str, headers: Mapping[str, str] | None = None) -> Page:
        """The answer to a form, without a token that `form`, fields or encoded ones, does not have."""
        types = {"Content-Type": "application/x-www-form-urlencoded"}
        body = form if isinstance(form, str) else urlencode(form)
        return self._ask("POST", path, body.encode(), {**types, **(headers or {})})

    def send(self, path: str, form: Mapping[str, str], page: str = "/topics?kind=system") -> Page:
        """The answer to a form as a page of the console sends it."""
        return self.post(path, {"csrf": self.csrf(page), **form}, {"Sec-Fetch-Site": "same-origin"})

    def csrf(self, page: str = "/topics?kind=system") -> str:
        """The CSRF token of this session, from any page."""
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.get(page).text)
        assert found is not None
        return found[1]

    def log_in(self, name: str, password: str) -> Page:
        """Logs in; the answer is a redirection if it succeeded."""
        return self.post("/login", {"name": name, "password": password})

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Page:
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        page = request(method, self.port, self.base_path + path, body, headers)
        for header in page.cookies:
            for name, morsel in SimpleCookie(header).items():
                self.cookies[name] = morsel.value
        return page


def first_administrator(folder: Path, port: int, name: str = "admin", password: str = PASSWORD) -> Browser:
    """A browser in which the first administrator of the console was made by the link in its folder."""
    browser = Browser(port)
    link = (folder / "first-login").read_text().strip().partition(f":{port}")[2]
    made = browser.post(link, {"name": name, "password": password, "again": password})
    assert made.status == http.client.SEE_OTHER, made.text
    return browser


class RunningConsole:
    """A console in a thread of this process, with its own folder; `cluster` is the address of name servers."""

    def __init__(
        self,
        folder: Path,
        cluster: str = "127.0.0.1:1",
        *,
        api_timeout: float = 1.0,
        credentials: Credentials | None = None,
        control_socket: Path | None = None,
        **options: Any,
    ) -> None:
        listener = bind("127.0.0.1", 0)
        self.port: int = listener.getsockname()[1]
        self.folder = folder
        self.config = ConsoleConfig(console_port=self.port, **options)
        self._stop_fd, self._stop_write_fd = os.pipe()
        self._is_ready = threading.Event()
        settings = ConsoleSettings(
            self.config,
            ClientConfig(cluster, api_timeout=api_timeout, credentials=credentials),
            folder,
            control_socket,
        )
        self._thread = threading.Thread(
            target=daemon.run, args=(lambda: None, self._is_ready.set, self._stop_fd, listener, settings)
        )
        self._thread.start()
        assert self._is_ready.wait(30)

    @property
    def link(self) -> str:
        """The path of the first login's link."""
        link = (self.folder / "first-login").read_text().strip()
        return link.removeprefix(self.config.url.removesuffix("/"))

    def browser(self) -> Browser:
        """A browser that has not logged in."""
        return Browser(self.port, self.config.console_base_path)

    def administrator(self, name: str = "admin", password: str = PASSWORD) -> Browser:
        """A browser in which the first administrator was made by the link."""
        browser = self.browser()
        made = browser.post(self.link, {"name": name, "password": password, "again": password})
        assert made.status == http.client.SEE_OTHER, made.text
        return browser

    def close(self) -> None:
        """Stops it and waits."""
        os.write(self._stop_write_fd, b"\0")
        self._thread.join(30)
        assert not self._thread.is_alive()
        os.close(self._stop_fd)
        os.close(self._stop_write_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
