"""`headrace store verify` on stores of Apache's brokers, intact and damaged."""

from pathlib import Path

import pytest

from support import golden
from support.headrace_process import HeadraceProcess, headrace

pytestmark = pytest.mark.slow


def sizes(name: str) -> list[str]:
    """The options for the sizes of this store's IndexFiles."""
    header = next((line for line in golden.expected(name) if line["kind"] == "index"), None)
    return [] if header is None else ["--slots", str(header["slots"]), "--entries", str(header["entries"])]


def test_verify_accepts_an_intact_store(tmp_path: Path) -> None:
    store = golden.unpack("plain", tmp_path)
    said = headrace("store", "verify", *sizes("plain"), store)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(f"{store}: OK, ")


def test_verify_reports_the_position_of_a_damaged_byte(tmp_path: Path) -> None:
    store = golden.unpack("plain", tmp_path)
    record = [line for line in golden.expected("plain") if line["kind"] == "record"][5]
    path = store / "commitlog" / record["file"]
    with path.open("r+b") as file:
        # A byte of the body: after 88 bytes of fixed fields (both hosts IPv4) and the body's length.
        file.seek(record["position"] + 88)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0xFF]))
    before = path.read_bytes()
    said = headrace("store", "verify", *sizes("plain"), store)
    assert said.returncode == 1
    assert str(record["offset"]) in said.stdout
    assert "1 problem" in said.stdout.splitlines()[-1]
    assert path.read_bytes() == before


def test_verify_accepts_our_store_running_and_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = ("--set", "mappedFileSizeCommitLog=5242880", "--set", "maxHashSlotNum=1000", "--set", "maxIndexNum=4000")
    with HeadraceProcess(data, *settings).wait_ready() as appliance:
        assert headrace("store", "verify", "--slots", "1000", "--entries", "4000", data / "store").returncode == 0
        assert appliance.stop() == 0
    said = headrace("store", "verify", "--slots", "1000", "--entries", "4000", data / "store")
    assert (said.returncode, said.stderr) == (0, "")


def test_verify_reports_a_folder_without_a_store(tmp_path: Path) -> None:
    said = headrace("store", "verify", tmp_path)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == f"headrace: {tmp_path} is not a store: it contains no commitlog folder\n"
