import pytest

from appliance.cli.progress import ProgressLine, bar


@pytest.mark.parametrize(
    ("done", "total", "share"), [(0, 100, "0%"), (50, 100, "50%"), (100, 100, "100%"), (7, 5, "100%"), (0, 0, "100%")]
)
def test_the_bar_says_what_share_is_done(done: int, total: int, share: str) -> None:
    line = bar("commitlog", done << 20, total << 20)
    assert f" {share}  " in line
    assert line.startswith("commitlog ")
    assert line.count("#") == round(30 * min(1.0, done / total) if total else 30)


def test_without_a_terminal_there_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine() as progress:
        progress.show("commitlog", 1, 2)
    assert capsys.readouterr() == ("", "")
