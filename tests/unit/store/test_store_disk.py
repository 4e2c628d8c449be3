from pathlib import Path

import pytest

from store.disk import free_bytes, ratio_of, used_ratio


@pytest.mark.parametrize(
    ("used", "usable", "ratio"),
    [(0, 100, 0), (50, 50, 0.5), (1, 999, 0.01), (899, 101, 0.9), (901, 99, 0.91), (100, 0, 1), (0, 0, -1)],
)
def test_used_share_is_rounded_up_to_hundredths(used: int, usable: int, ratio: float) -> None:
    assert ratio_of(used, usable) == ratio


def test_only_an_existing_disk_has_a_usage_ratio(tmp_path: Path) -> None:
    assert 0 <= used_ratio(tmp_path) <= 1
    assert free_bytes(tmp_path) > 0
    assert used_ratio(tmp_path / "none") == -1
    assert free_bytes(tmp_path / "none") == 0
