import os
import sys
import termios

import pytest

from appliance.cli.progress import ProgressLine, progress_text


@pytest.mark.parametrize(
    ("done", "total", "share"), [(0, 100, "0%"), (50, 100, "50%"), (100, 100, "100%"), (7, 5, "100%"), (0, 0, "100%")]
)
def test_bar_shows_the_completed_share(done: int, total: int, share: str) -> None:
    line = progress_text("commitlog", done << 20, total << 20, 1.0)
    assert f" {share}  " in line
    assert line.startswith("commitlog ")
    assert line.count("#") == round(30 * min(1.0, done / total) if total else 30)


def test_line_shows_rate_and_remaining_time() -> None:
    assert progress_text("log", 512 << 20, 1024 << 20, 2.0).endswith("50%  512 of 1,024 MiB  256 MiB/s  2 s left")
    assert progress_text("log", 0, 1 << 40, 0.0).endswith("0 MiB/s  0 s left")
    assert progress_text("log", 1 << 30, 1 << 40, 10.0).endswith("102 MiB/s  170 min left")


def test_nothing_is_printed_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine() as progress:
        progress.show("commitlog", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_line_fits_the_terminal_and_is_erased_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
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
