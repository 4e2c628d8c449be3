"""Finds the address of a C function for CRC-32: a Python call for each body costs more than the CRC of a small one.

The package isal exports its library's function `crc32_gzip_refl(crc, data, length)`. It is tested before it is used.
"""

import ctypes
from typing import Final

_NAME: Final = "crc32_gzip_refl"
_CHECK: Final = b"123456789"
_CRC_OF_CHECK: Final = 0xCBF43926


def find_crc_function() -> int:
    """Its address; 0 if there is none (a machine of a cluster may lack the package and is then slower)."""
    try:
        from isal import isal_zlib  # noqa: PLC0415

        function = ctypes.CDLL(isal_zlib.__file__)[_NAME]
    except (ImportError, OSError, AttributeError):
        return 0
    function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint64)
    if function(0, _CHECK, len(_CHECK)) != _CRC_OF_CHECK:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
