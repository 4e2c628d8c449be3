"""The limit of downloads in progress."""

import contextlib

import pytest

from web.errors import TooOften
from web.pages.downloads import Downloads


def test_download_beyond_the_limit_is_refused_until_another_one_ends() -> None:
    downloads = Downloads(2)
    with downloads.place():
        for _ in range(2):
            with contextlib.suppress(OSError), downloads.place():
                with pytest.raises(TooOften, match="2 downloads are in progress"), downloads.place():
                    pass
                raise OSError("broken off")
