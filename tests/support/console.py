"""A console as browsers see it: plain HTTP over http.client, without following redirects."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Page:
    """One answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

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
        return Page(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def is_up(port: int) -> bool:
    """Whether a console answers."""
    try:
        return get(port, "/static/icon.svg").status == http.client.OK
    except OSError:
        return False
