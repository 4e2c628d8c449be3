"""The signature of a request for access control: HMAC-SHA1 over the values of its ext fields and its body (remoting spec 6).

Signed are the values of all ext fields except the signature, sorted by key in Java's order and concatenated, then the body. Code, opaque and remark
are not signed, so a signature does not prevent replays.
"""

import binascii
import hmac
from collections.abc import Collection, Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 (the field's name)

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""A field of QUERY_MESSAGE that clients of 4.9.8 sign, but older ones and brokers do not; `is_signed` accepts both."""


def signed_content(ext: Mapping[str, str], body: bytes = b"", leave_out: Collection[str] = (SIGNATURE,)) -> bytes:
    """Returns the signed bytes."""
    keys = sorted(ext)
    if not "".join(keys).isascii():
        # Java sorts by UTF-16 code units; their big-endian bytes sort in the same way.
        keys.sort(key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    return "".join([ext[key] for key in keys if key not in leave_out]).encode("utf-8", "replace") + body


def signature_of(secret: str, content: bytes) -> str:
    """Returns the HMAC-SHA1 of the content with the secret, in Base64."""
    return binascii.b2a_base64(hmac.digest(secret.encode(), content, "sha1"), newline=False).decode()


def sign(secret: str, ext: Mapping[str, str], body: bytes = b"") -> str:
    """Returns the signature of a request with these ext fields (including AccessKey) and this body, in Base64."""
    return signature_of(secret, signed_content(ext, body))


def is_signed(secret: str, ext: Mapping[str, str], body: bytes = b"") -> bool:
    """Whether the ext fields contain a valid signature of the request."""
    given = ext.get(SIGNATURE, "").encode("utf-8", "replace")
    if hmac.compare_digest(given, sign(secret, ext, body).encode()):
        return True
    if UNIQUE_KEY_QUERY not in ext:
        return False
    without = signature_of(secret, signed_content(ext, body, (SIGNATURE, UNIQUE_KEY_QUERY)))
    return hmac.compare_digest(given, without.encode())
