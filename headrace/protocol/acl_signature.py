"""The signature that ACL asks of a request: HMAC-SHA1 over the values of its ext fields and its body (remoting spec 6).

All ext fields but the signature, sorted by key in Java's order, their values without anything between them, then the body. Code, opaque and remark
are not signed, so a signature does not keep a request from being sent again.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 (the field's name)

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""A field of QUERY_MESSAGE that clients of 4.9.8 sign, older ones do not, and brokers leave out; `is_signed` takes both."""


def signed_content(ext: Mapping[str, str], body: bytes = b"", leave_out: Iterable[str] = (SIGNATURE,)) -> bytes:
    """The bytes that are signed."""
    skipped = set(leave_out)
    # Java sorts by UTF-16 code units; their big-endian bytes sort in the same way.
    keys = sorted((key for key in ext if key not in skipped), key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    return "".join([ext[key] for key in keys]).encode("utf-8", "replace") + body


def _signature(secret: str, content: bytes) -> str:
    return base64.b64encode(hmac.new(secret.encode(), content, hashlib.sha1).digest()).decode()


def sign(secret: str, ext: Mapping[str, str], body: bytes = b"") -> str:
    """The signature of a request with these ext fields (AccessKey among them) and this body, in Base64."""
    return _signature(secret, signed_content(ext, body))


def is_signed(secret: str, ext: Mapping[str, str], body: bytes = b"") -> bool:
    """Whether the ext fields hold the request's right signature."""
    given = ext.get(SIGNATURE, "").encode("utf-8", "replace")
    if hmac.compare_digest(given, sign(secret, ext, body).encode()):
        return True
    if UNIQUE_KEY_QUERY not in ext:
        return False
    without = _signature(secret, signed_content(ext, body, (SIGNATURE, UNIQUE_KEY_QUERY)))
    return hmac.compare_digest(given, without.encode())
