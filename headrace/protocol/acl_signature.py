"""The signature that ACL asks of a request: HMAC-SHA1 over the values of its ext fields and its body (remoting spec 6).

All ext fields but the signature, sorted by key in Java's order, their values without anything between them, then the body. Code, opaque and remark
are not signed, so a signature does not keep a request from being sent again.
"""

import binascii
import hmac
from collections.abc import Collection, Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 (the field's name)

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""A field of QUERY_MESSAGE that clients of 4.9.8 sign, older ones do not, and brokers leave out; `is_signed` takes both."""


def signed_content(ext: Mapping[str, str], body: bytes = b"", leave_out: Collection[str] = (SIGNATURE,)) -> bytes:
    """The bytes that are signed."""
    keys = sorted(ext)
    if not "".join(keys).isascii():
        # Java sorts by UTF-16 code units; their big-endian bytes sort in the same way.
        keys.sort(key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    return "".join([ext[key] for key in keys if key not in leave_out]).encode("utf-8", "replace") + body


def signature_of(secret: str, content: bytes) -> str:
    """HMAC-SHA1 of the content with the secret, in Base64."""
    return binascii.b2a_base64(hmac.digest(secret.encode(), content, "sha1"), newline=False).decode()


def sign(secret: str, ext: Mapping[str, str], body: bytes = b"") -> str:
    """The signature of a request with these ext fields (AccessKey among them) and this body, in Base64."""
    return signature_of(secret, signed_content(ext, body))


def is_signed(secret: str, ext: Mapping[str, str], body: bytes = b"") -> bool:
    """Whether the ext fields hold the request's right signature."""
    given = ext.get(SIGNATURE, "").encode("utf-8", "replace")
    if hmac.compare_digest(given, sign(secret, ext, body).encode()):
        return True
    if UNIQUE_KEY_QUERY not in ext:
        return False
    without = signature_of(secret, signed_content(ext, body, (SIGNATURE, UNIQUE_KEY_QUERY)))
    return hmac.compare_digest(given, without.encode())
