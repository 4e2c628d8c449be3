"""Identity: a user of an OpenID provider, and the role that its claims give."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from web.routes import Access


class Identity(Struct, frozen=True):
    """A user of a provider. Issuer and subject identify it; the names are for people, and the user may be able to change them."""

    issuer: str
    subject: str
    login: str
    display_name: str
    access: Access
    """ANYONE: none of the configured values is in the claim."""


class Roles(Struct, frozen=True):
    """Which values of which claim give which role."""

    claim: str
    values: Mapping[Access, Sequence[str]]

    def access(self, claims: Mapping[str, Any]) -> Access:
        """The highest role that the claims give."""
        found = _claim(claims, self.claim)
        listed = found if isinstance(found, list) else [found]
        given = {one for one in listed if isinstance(one, str)}
        return max((access for access, values in self.values.items() if given & set(values)), default=Access.ANYONE)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
