"""A first-time user: install, copy the first example, run it against a broker without topics."""

import re
import subprocess
from pathlib import Path

import pytest

from support.appliance import Appliance
from support.sdk import await_registered
from support.sdk_wheel import build_wheel, clean_environment

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "packaging" / "sdk" / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clean_environment(build_wheel(tmp_path_factory.mktemp("wheel")), tmp_path_factory.mktemp("clean"))


def test_first_example_works_on_an_empty_broker(python: Path, tmp_path: Path) -> None:
    assert len(EXAMPLES) == 2
    with Appliance(tmp_path / "data") as server:
        await_registered(server.name_server)
        for example in EXAMPLES:
            assert len(example.splitlines()) <= 12, "the example is longer than ten lines and two blank ones"
            program = example.replace("127.0.0.1:9876", server.name_server)
            done = subprocess.run(
                [python, "-W", "error", "-c", program],
                capture_output=True,
                text=True,
                timeout=100,
                cwd=tmp_path,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert not done.stderr
            assert re.match(r"[0-9A-F]{32}", done.stdout), "it did not print the message's id"
