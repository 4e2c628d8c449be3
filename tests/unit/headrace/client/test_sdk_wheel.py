"""The wheel `headrace` in an environment without anything else of this repository."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.sdk_wheel import build_wheel, clean_environment

SAMPLE = """
import asyncio
from headrace import Admin, ClientConfig, Credentials, Message, Producer, SendResult, TransactionProducer
from headrace.sync import Producer as SyncProducer

config = ClientConfig("127.0.0.1:9876", credentials=Credentials("access", "secret"))

async def main() -> None:
    async with Producer("orders", config, retries=3) as producer, Admin(config) as admin:
        result: SendResult = await producer.send(Message("Orders", b"x", keys=["a"]), sharding_key="a")
        offset: int = await admin.max_offset(result.queue)
        print(offset)
    async with TransactionProducer("orders", config, check=lambda message: message.body == b"x") as transactions:
        async with transactions.transaction(Message("Orders", b"x")) as transaction:
            print(transaction.result.message_id)

def plain() -> SendResult:
    with SyncProducer("orders", config) as producer:
        return producer.send_nowait(Message("Orders", b"x")).result()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clean_environment(wheel, tmp_path_factory.mktemp("clean"))


@pytest.mark.slow
def test_wheel_is_pure_python_and_contains_no_server_code(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [archive.read(name).decode() for name in names if name.endswith("METADATA")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"headrace"}
    assert "headrace/py.typed" in names
    assert {name.rsplit("/", 1)[-1] for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}
    assert not [name for name in names if name.endswith((".so", ".pxd", ".c"))]
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert required == ["Requires-Dist: msgspec>=0.19"]
    assert "Provides-Extra: opentelemetry" in metadata
    assert "Requires-Python: >=3.11" in metadata


@pytest.mark.slow
def test_wheel_works_standalone(clean: Path, tmp_path: Path) -> None:
    program = (
        "import sys, headrace, headrace.sync\n"
        "[getattr(headrace, name) for name in headrace.__all__]\n"
        "from headrace.sync import Producer, Message\n"
        "producer = Producer('g', '127.0.0.1:1').start()\n"
        "try: producer.send(Message('T', b'x'))\n"
        "except headrace.ConnectError as error: print(error)\n"
        "producer.close()\n"
        "print([n for n in ('broker', 'store', 'ipc', 'appliance', 'nameserver', 'lz4', 'uvloop') if __import__('importlib.util').util.find_spec(n)])\n"
    )
    done = subprocess.run(
        [clean, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    said, others = done.stdout.splitlines()
    assert "127.0.0.1:1" in said
    assert others == "[]"


@pytest.mark.slow
def test_program_that_uses_the_wheel_passes_strict_type_checks(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        str(clean),
        "--cache-dir",
        str(tmp_path / "cache"),
        "sample.py",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
