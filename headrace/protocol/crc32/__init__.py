"""CRC-32 of bytes in memory, for compiled modules: a Python call for each body costs more than the CRC of a small one.

The package isal exports its library's function `crc32_gzip_refl(crc, data, length)`, which is tested before it is used. Each compiled module
has a pointer to it of its own, and calls `take_crc_function(find_crc_function())` once. Bounds are not checked here.

Compiled modules use the C functions of the `.pxd` beside this file, interpreted ones the functions below. This is a package because it must
not be compiled itself: compiled and interpreted modules may then be mixed.
"""

import ctypes
from typing import Final
from zlib import crc32

_NAME: Final = "crc32_gzip_refl"
_CHECK: Final = b"123456789"
_CRC_OF_CHECK: Final = 0xCBF43926


def find_crc_function() -> int:
    """The address of the C function; 0 if there is none (a machine of a cluster may lack the package and is then slower)."""
    try:
        from isal import isal_zlib  # noqa: PLC0415

        function = ctypes.CDLL(isal_zlib.__file__)[_NAME]
    except (ImportError, OSError, AttributeError):
        return 0
    function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint64)
    if function(0, _CHECK, len(_CHECK)) != _CRC_OF_CHECK:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def take_crc_function(address: int) -> None:
    """Makes `crc_of` call the C function at this address; 0: its own function."""


def crc_of(data: bytes | memoryview, at: int, length: int) -> int:
    """The CRC-32 of `length` bytes. Compiled, of these 32 bits the first is a sign."""
    return crc32(data[at : at + length])
