import os
import time
from collections.abc import Iterator

import pytest

from headrace.model import (
    UniqueIdGenerator,
    create_unique_id,
    decode_offset_message_id,
    encode_offset_message_id,
    unique_id_time_ms,
)


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_offset_message_id_is_address_port_and_offset_in_hexadecimal() -> None:
    assert encode_offset_message_id(("10.0.0.5", 10911), 0x40000400) == "0A00000500002A9F0000000040000400"
    assert decode_offset_message_id("0A00000500002A9F0000000040000400") == (("10.0.0.5", 10911), 0x40000400)


def test_offset_message_id_of_ipv6_is_longer() -> None:
    text = encode_offset_message_id(("2001:db8::1", 10911), 7)
    assert len(text) == 56
    assert decode_offset_message_id(text) == (("2001:db8::1", 10911), 7)


@pytest.mark.parametrize("text", ["", "7F", "zz" * 16, "7F0000010000" + " " * 20, "0" * 31])
def test_invalid_offset_message_id_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        decode_offset_message_id(text)


def test_unique_id_contains_address_pid_constant_clock_and_count(utc: None) -> None:
    generator = UniqueIdGenerator("192.168.1.10", pid=12345, constant=bytes.fromhex("18B4AAC2"))
    ids = [generator.create(1_700_000_000_000) for _ in range(8)]
    assert ids[7] == "C0A8010A303918B4AAC247B760000007"
    assert unique_id_time_ms(ids[7], now_ms=1_700_000_000_001) == 1_700_000_000_000


def test_clock_of_unique_ids_restarts_each_month(utc: None) -> None:
    generator = UniqueIdGenerator("192.168.1.10")
    assert generator.create(1_701_388_799_999)[20:28] == f"{30 * 86_400_000 - 1:08X}"  # the last of November 2023
    assert generator.create(1_701_388_800_000)[20:28] == "00000000"
    assert generator.create(1_701_388_799_000)[20:28] == "00000000", (
        "a clock that was set back stays at the month's begin"
    )


def test_id_of_last_month_is_not_in_the_future(utc: None) -> None:
    made = 1_701_388_799_999
    unique_id = UniqueIdGenerator("192.168.1.10").create(made)
    assert unique_id_time_ms(unique_id, now_ms=made + 60_000) == made


def test_unique_ids_of_a_process_differ() -> None:
    assert len({create_unique_id() for _ in range(1000)}) == 1000
    assert len(create_unique_id()) == 32


def test_forked_child_creates_different_ids() -> None:
    mine = create_unique_id()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, create_unique_id().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    theirs = os.read(reader, 64).decode()
    os.close(reader)
    os.close(writer)
    assert theirs[8:20] != mine[8:20]
