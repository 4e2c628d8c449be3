"""The scan of frames' headers: which names and frames the hot paths may ask for. What it makes of frames is compared with the plain path elsewhere."""

import pytest

from broker.header_scan import MAX_FIELDS, HeaderScan


def test_too_many_fields_are_rejected() -> None:
    with pytest.raises(ValueError, match="27 fields; at most 26"):
        HeaderScan((1, 2), [b"%d" % number for number in range(MAX_FIELDS + 1)])


def test_ambiguous_names_are_rejected() -> None:
    with pytest.raises(ValueError, match="share a slot"):
        HeaderScan((1, 2), [b"same", b"same"])
