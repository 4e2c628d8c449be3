import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipc.errors import NoSharedMemory, SegmentMissing
from ipc.names import segment_name
from ipc.posix import anonymous_segment, create_segment, find_segments, open_segment, unlink_segment

SIZE = 4096


@pytest.fixture
def name(tmp_path: Path) -> Iterator[str]:
    chosen = segment_name(tmp_path, "test")
    yield chosen
    unlink_segment(chosen)


def test_new_segment_is_zero_and_words_share_its_bytes(name: str) -> None:
    segment = create_segment(name, SIZE)
    assert bytes(segment.view) == bytes(SIZE)
    assert (segment.size_bytes, len(segment.words)) == (SIZE, SIZE // 8)
    segment.words[3] = -2
    assert bytes(segment.view[24:32]) == (-2).to_bytes(8, sys.byteorder, signed=True)
    segment.close()


def test_segment_is_private_to_its_owner(name: str) -> None:
    create_segment(name, SIZE).close()
    assert os.stat(f"/dev/shm{name}").st_mode & 0o777 == 0o600


def test_stricter_umask_is_respected(name: str) -> None:
    before = os.umask(0o277)
    try:
        create_segment(name, SIZE).close()
    finally:
        os.umask(before)
    assert os.stat(f"/dev/shm{name}").st_mode & 0o777 == 0o400


def test_memory_is_reserved_when_the_segment_is_created(name: str) -> None:
    create_segment(name, SIZE * 16).close()
    assert os.stat(f"/dev/shm{name}").st_blocks * 512 >= SIZE * 16


def test_shared_memory_error_names_needed_and_available_size_and_the_remedy(name: str) -> None:
    needed = 1 << 50
    with pytest.raises(NoSharedMemory) as raised:
        create_segment(name, needed)
    assert raised.value.needed_bytes == needed
    assert 0 <= raised.value.free_bytes < needed
    message = str(raised.value)
    assert f"{needed:,}" in message
    assert f"{raised.value.free_bytes:,} free" in message
    assert "--shm-size" in message
    assert "queueTableCapacity" in message
    assert find_segments(name) == []


def test_stale_segment_is_replaced_and_its_users_keep_it(name: str) -> None:
    old = create_segment(name, SIZE)
    old.words[0] = 1
    new = create_segment(name, SIZE * 2)
    assert new.words[0] == 0
    assert old.words[0] == 1
    assert open_segment(name).size_bytes == SIZE * 2


def test_visitor_sees_stores_but_cannot_store(name: str) -> None:
    owner = create_segment(name, SIZE)
    visitor = open_segment(name)
    owner.words[5] = 77
    assert visitor.words[5] == 77
    with pytest.raises(TypeError):
        visitor.words[5] = 78


def test_exit_of_a_visitor_does_not_destroy_the_segment(name: str) -> None:
    owner = create_segment(name, SIZE)
    owner.words[0] = 42
    script = "import sys; from ipc.posix import open_segment; sys.exit(open_segment(sys.argv[1]).words[0])"
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", script, name], check=False).returncode == 42
    assert open_segment(name).words[0] == 42


def test_open_fails_when_no_appliance_runs(name: str) -> None:
    with pytest.raises(SegmentMissing, match="start the appliance with: headrace run"):
        open_segment(name)
    assert not unlink_segment(name)


def test_open_fails_while_the_segment_is_being_created(name: str) -> None:
    Path(f"/dev/shm{name}").touch()
    with pytest.raises(SegmentMissing, match="not initialized yet"):
        open_segment(name)


def test_closed_segment_cannot_be_read() -> None:
    segment = anonymous_segment(SIZE)
    words = segment.words
    segment.close()
    with pytest.raises(ValueError, match="released"):
        words[0]


def test_separate_view_outlives_the_close() -> None:
    segment = anonymous_segment(SIZE)
    view = segment.view[:8]
    segment.close()
    assert bytes(view) == bytes(8)
