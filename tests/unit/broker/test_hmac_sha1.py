"""The interpreted form of HMAC-SHA1; tests/property compares the compiled one with it, frame by frame."""

import base64

import pytest

from broker import hmac_sha1

INNER_PAD, OUTER_PAD = 0x36, 0x5C


@pytest.mark.parametrize(
    ("secret", "data", "digest"),
    [
        (b"\x0b" * 20, b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
        (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        (b"\xaa" * 20, b"\xdd" * 50, "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
        (b"", b"", "fbdb1d1b18aa6c08324b7d64b71fb76370690e1d"),
    ],
)
def test_signatures_are_those_of_rfc_2202(secret: bytes, data: bytes, digest: str) -> None:
    assert hmac_sha1.load()
    padded = secret.ljust(hmac_sha1.BLOCK_SIZE, b"\0")
    inner, outer = (hmac_sha1.new_state(bytes([one ^ pad for one in padded])) for pad in (INNER_PAD, OUTER_PAD))
    found = memoryview(bytearray(hmac_sha1.TEXT_SIZE + 1))
    text = base64.b64encode(bytes.fromhex(digest))
    for _ in range(2):
        hmac_sha1.begin(inner)
        hmac_sha1.update(b"-" + data, 1, 1)
        hmac_sha1.update(memoryview(data), 1, len(data))
        hmac_sha1.finish(outer, found)
        assert bytes(found) == text + b"\0"
    other = memoryview(bytearray(hmac_sha1.TEXT_SIZE + 1))
    values, empty = memoryview(data[:3].ljust(99, b"-")), memoryview(bytes(99))
    hmac_sha1.sign_two(
        inner, outer, values, len(data[:3]), data, 3, len(data) - len(data[:3]), empty, 0, 0, len(data), found, other
    )
    assert bytes(found) == bytes(other) == text + b"\0"
    assert hmac_sha1.is_same(found, b"--" + text, 2)
    assert not hmac_sha1.is_same(found, b"--" + text, 1)
    assert not hmac_sha1.is_same(found, text[:-2], 0)
