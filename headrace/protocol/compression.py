"""Compressed bodies: clients compress and decompress them, brokers only pass them on (remoting spec 5.3).

The message's sysFlag has the algorithm: zlib (RFC 1950), an LZ4 frame or a Zstandard frame. LZ4 and Zstandard are imported at their first use.
"""

import zlib
from typing import Any, Final

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.model import sys_flag as sys_flags

DEFAULT_LEVEL: Final = 5
"""RocketMQ's own level for zlib."""

MAX_PLAIN_SIZE: Final = 256 * 1024 * 1024
"""# limit: 64 times the largest body that brokers accept by default; limits the damage of a decompression bomb."""
_MAX_BEGINNING_WINDOW: Final = 8 << 20  # limit: memory; the window that every decoder of Zstandard should support
_PIECE: Final = 1024  # limit: four bytes of zstd can stand for 128 KiB, so a piece stands for at most 32 MiB


def compress(body: bytes, sys_flag: int, level: int = DEFAULT_LEVEL) -> bytes:
    """Compresses the body with the algorithm in `sys_flag`; no compression bits mean zlib.

    Raises LocalProtocolError if the algorithm is unknown or its package is not installed.
    """
    kind = sys_flags.compression_type(sys_flag)
    if kind == sys_flags.COMPRESSION_ZLIB:
        return zlib.compress(body, level)
    try:
        if kind == sys_flags.COMPRESSION_LZ4:
            return bytes(_lz4_frame().compress(body))
        if kind == sys_flags.COMPRESSION_ZSTD:
            return bytes(_zstandard().ZstdCompressor(level=level).compress(body))
    except ImportError as error:
        raise LocalProtocolError(f"cannot compress: {error}; install the package") from None
    raise LocalProtocolError(f"unknown compression type {kind:#x}")


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Decompresses the body with the algorithm in `sys_flag`; no compression bits mean zlib.

    Raises RemoteProtocolError if that fails, or if the result would exceed MAX_PLAIN_SIZE bytes.
    """
    kind = sys_flags.compression_type(sys_flag)
    try:
        if kind == sys_flags.COMPRESSION_ZLIB:
            return _rest(zlib.decompressobj(), body)
        if kind == sys_flags.COMPRESSION_LZ4:
            return _rest(_lz4_frame().LZ4FrameDecompressor(), body)
        if kind == sys_flags.COMPRESSION_ZSTD:
            return _zstandard_rest(body)
    except (zlib.error, ImportError, RuntimeError, EOFError, ValueError, MemoryError) as error:
        raise RemoteProtocolError(f"a compressed body cannot be decompressed: {error}") from None
    raise RemoteProtocolError(f"unknown compression type {kind:#x}")


def decompress_beginning(body: bytes, sys_flag: int, most: int) -> tuple[bytes, bool]:
    """Decompresses at most the first `most` bytes of a body, without memory for the rest; also returns whether they are all of it.

    For lists and previews of messages from anybody. Raises RemoteProtocolError if it fails.
    """
    kind = sys_flags.compression_type(sys_flag)
    try:
        if kind == sys_flags.COMPRESSION_ZLIB:
            plain = zlib.decompressobj().decompress(body, most + 1)
        elif kind == sys_flags.COMPRESSION_LZ4:
            plain = bytes(_lz4_frame().LZ4FrameDecompressor().decompress(body, most + 1))
        elif kind == sys_flags.COMPRESSION_ZSTD:
            plain = _zstandard_beginning(body, most + 1)
        else:
            raise RemoteProtocolError(f"unknown compression type {kind:#x}")
    except (zlib.error, ImportError, RuntimeError, EOFError, ValueError, MemoryError) as error:
        raise RemoteProtocolError(f"a compressed body cannot be decompressed: {error}") from None
    return plain[:most], len(plain) <= most


def _rest(decompressor: Any, body: bytes) -> bytes:
    plain = bytes(decompressor.decompress(body, MAX_PLAIN_SIZE))
    if not decompressor.eof:
        raise RemoteProtocolError(f"a compressed body is truncated or larger than {MAX_PLAIN_SIZE} bytes")
    return plain


def _zstandard_rest(body: bytes) -> bytes:
    zstandard = _zstandard()
    try:
        size = zstandard.frame_content_size(body)
        if size > MAX_PLAIN_SIZE:
            raise RemoteProtocolError(f"a compressed body is larger than {MAX_PLAIN_SIZE} bytes")
        # A frame with its size in the header is decompressed at once, others as a stream.
        if size > 0:
            return bytes(zstandard.ZstdDecompressor().decompress(body))
        decompressor = zstandard.ZstdDecompressor().decompressobj(write_size=1 << 20)
        plain = bytearray()
        for at in range(0, len(body), _PIECE):
            plain += decompressor.decompress(body[at : at + _PIECE])
            if decompressor.eof or len(plain) > MAX_PLAIN_SIZE:
                break
    except zstandard.ZstdError as error:
        raise RemoteProtocolError(f"a compressed body cannot be decompressed: {error}") from None
    if not decompressor.eof or len(plain) > MAX_PLAIN_SIZE:
        raise RemoteProtocolError(f"a compressed body is truncated or larger than {MAX_PLAIN_SIZE} bytes")
    return bytes(plain)


def _zstandard_beginning(body: bytes, most: int) -> bytes:
    zstandard = _zstandard()
    try:
        with zstandard.ZstdDecompressor(max_window_size=_MAX_BEGINNING_WINDOW).stream_reader(body) as reader:
            return bytes(reader.read(most))
    except zstandard.ZstdError as error:
        raise RemoteProtocolError(f"a compressed body cannot be decompressed: {error}") from None


def _lz4_frame() -> Any:
    import lz4.frame  # noqa: PLC0415 (only for those who meet it)

    return lz4.frame


def _zstandard() -> Any:
    import zstandard  # noqa: PLC0415

    return zstandard
