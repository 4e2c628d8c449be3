import os
import sys
import termios

import pytest

from appliance.cli.progress import ProgressLine, progress_text


@pytest.mark.parametrize(
    ("done", "total", "share"), [(0, 100, "0%"), (50, 100, "50%"), (100, 100, "100%"), (7, 5, "100%"), (0, 0, "100%")]
)
def test_the_bar_says_what_share_is_done(done: int, total: int, share: str) -> None:
    line = progress_text("commitlog", done << 20, total << 20, 1.0)
    assert f" {share}  " in line
    assert line.startswith("commitlog ")
    assert line.count("#") == round(30 * min(1.0, done / total) if total else 30)


def test_the_line_says_rate_and_time_left() -> None:
    assert progress_text("log", 512 << 20, 1024 << 20, 2.0).endswith("50%  512 of 1,024 MiB  256 MiB/s  2 s left")
    assert progress_text("log", 0, 1 << 40, 0.0).endswith("0 MiB/s  0 s left")
    assert progress_text("log", 1 << 30, 1 << 40, 10.0).endswith("102 MiB/s  170 min left")


def test_without_a_terminal_there_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine() as progress:
        progress.show("commitlog", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_it_is_one_line_no_wider_than_that_and_wiped_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    wipe = "\r\x1b[2K"
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 60))
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with ProgressLine() as progress:
            progress.show("commitlog", 1 << 20, 2 << 20)
        said = ""
        while said.count(wipe) < 2:
            said += os.read(master, 1 << 16).decode()
    os.close(master)
    before, line, after = said.split(wipe)
    assert (before, after) == ("", "")
    assert line == progress_text("commitlog", 1 << 20, 2 << 20, 1.0)[:59]
