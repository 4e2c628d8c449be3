"""Addresses of pages, without the base path."""

from typing import Final
from urllib.parse import quote, urlencode

API: Final = "/api/v1"
"""Before the addresses of pages: the same as JSON."""


def path_of(*parts: str, **arguments: object) -> str:
    """`/topics/Orders?…` from its parts, each percent-encoded; arguments that are empty are left out."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {key: str(value) for key, value in arguments.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path
