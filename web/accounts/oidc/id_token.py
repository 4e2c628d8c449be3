"""ID tokens: whom one names, after its signature and every claim have been checked."""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, InvalidClaimError, InvalidKeyIdError, JoseError, MissingClaimError
from joserfc.jwk import ECKey, KeySet, RSAKey
from joserfc.jws import JWSRegistry

from web.accounts.oidc.identity import Identity, Roles
from web.errors import Refused

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures with the provider's private key. Not `none`, and not those with the client secret."""
LEEWAY_S: Final = 60
"""By which the clocks of provider and console may differ."""
_MOST_KEYS: Final = 100  # limit: keys of a provider
_LARGEST_HEADER: Final = 4_096
_LONGEST_DISPLAY: Final = 100
_SUBJECT: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")
_ADVICE: Final = "Log in again. If it happens again, check the console's registration at the provider, and the clocks of both machines."
_WRONG_CLAIMS: Final[Mapping[str, str]] = {
    "iss": "the ID token of the provider was refused: it names another issuer (iss)",
    "aud": "the ID token of the provider was refused: it was issued for another client (aud)",
    "nonce": "the ID token of the provider was refused: it belongs to another login (nonce)",
    "iat": "the ID token of the provider was refused: it was issued in the future (iat)",
    "nbf": "the ID token of the provider was refused: it is not valid yet (nbf)",
}
_MALFORMED: Final = (JoseError, ValueError, TypeError, KeyError, RecursionError)
"""What the library raises for keys and tokens that are none."""
_WRONG_CLAIM: Final = "the ID token of the provider was refused: a claim is not valid"

logger = logging.getLogger(__name__)


class UnknownKey(Exception):  # noqa: N818  an outcome
    """The token was signed with a key that is not among the provider's: perhaps a new one."""


def import_keys(document: Mapping[str, Any]) -> KeySet:
    """The keys for signatures in a provider's key document; those that cannot be used are left out."""
    listed = document.get("keys")
    found: list[RSAKey | ECKey] = []
    for entry in listed[:_MOST_KEYS] if isinstance(listed, list) else []:
        kind = entry.get("kty") if isinstance(entry, dict) and entry.get("use", "sig") == "sig" else None
        if kind not in ("RSA", "EC"):
            continue
        try:
            found.append(RSAKey.import_key(entry) if kind == "RSA" else ECKey.import_key(entry))
        except _MALFORMED as error:
            logger.warning("key of the OpenID provider skipped kty=%s error=%s", kind, type(error).__name__)
    return KeySet(list(found))


def read_identity(
    token: str, keys: KeySet, issuer: str, client_id: str, nonce: str, roles: Roles, now_s: int
) -> Identity:
    """Checks an ID token as OpenID Connect Core 3.1.3.7 demands. Raises Refused, UnknownKey."""
    registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    registry.max_header_length = _LARGEST_HEADER
    try:
        claims = jwt.decode(token, keys, ALGORITHMS, registry).claims
    except InvalidKeyIdError as error:
        raise UnknownKey from error
    except JoseError as error:
        raise Refused(
            "the ID token of the provider was refused: its signature is not valid ({error})", _ADVICE, error=error.error
        ) from error
    except _MALFORMED as error:
        logger.warning("ID token of the OpenID provider refused error=%s", type(error).__name__)
        raise Refused("the ID token of the provider was refused: it is not a signed token", _ADVICE) from error
    expected = jwt.JWTClaimsRegistry(
        now_s,
        LEEWAY_S,
        iss={"essential": True, "value": issuer},
        sub={"essential": True},
        aud={"essential": True, "value": client_id},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        expected.validate(claims)
    except ExpiredTokenError as error:
        raise Refused("the ID token of the provider was refused: it has expired (exp)", _ADVICE) from error
    except MissingClaimError as error:
        raise Refused(
            "the ID token of the provider was refused: a claim is missing ({claim})", _ADVICE, claim=error.claim
        ) from error
    except InvalidClaimError as error:
        raise Refused(_WRONG_CLAIMS.get(error.claim, _WRONG_CLAIM), _ADVICE) from error
    if not isinstance(claims["nonce"], str):
        raise Refused(_WRONG_CLAIMS["nonce"], _ADVICE)
    audience, party = claims["aud"], claims.get("azp")
    if party != client_id and (party is not None or (isinstance(audience, list) and len(audience) > 1)):
        raise Refused("the ID token of the provider was refused: it was issued for another client (azp)", _ADVICE)
    subject = claims["sub"]
    if not _SUBJECT.fullmatch(subject):
        raise Refused("the ID token of the provider was refused: its subject is not valid (sub)", _ADVICE)
    login = next(
        (text for text in map(_text, (claims.get("preferred_username"), claims.get("email"))) if text), subject
    )
    return Identity(issuer, subject, login, _text(claims.get("name")) or login, roles.access(claims))


def _text(value: object) -> str:
    """A name as one line that can be shown; empty if there is none."""
    if not isinstance(value, str):
        return ""
    return "".join(character for character in value if character.isprintable())[:_LONGEST_DISPLAY].strip()
