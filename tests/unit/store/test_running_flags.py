import pytest

from ipc import control_block
from store.running_flags import RunningFlag, is_queue_writeable, is_readable, is_writeable


@pytest.mark.parametrize(
    ("flags", "readable", "writeable", "queue_writeable"),
    [
        (0, True, True, True),
        (RunningFlag.NOT_READABLE, False, True, True),
        (RunningFlag.NOT_WRITEABLE, True, False, False),
        (RunningFlag.LOGICS_QUEUE_ERROR, True, False, False),
        (RunningFlag.INDEX_FILE_ERROR, True, False, False),
        (RunningFlag.DISK_FULL, True, False, True),
        (RunningFlag.DISK_FULL | RunningFlag.NOT_READABLE, False, False, True),
    ],
)
def test_each_flag_forbids_what_it_forbids_in_rocketmq(
    flags: int, readable: bool, writeable: bool, queue_writeable: bool
) -> None:
    assert (is_readable(flags), is_writeable(flags), is_queue_writeable(flags)) == (
        readable,
        writeable,
        queue_writeable,
    )


def test_the_bits_are_those_of_the_control_block() -> None:
    assert [flag.value for flag in RunningFlag] == [
        control_block.NOT_READABLE,
        control_block.NOT_WRITEABLE,
        control_block.QUEUE_ERROR,
        control_block.INDEX_ERROR,
        control_block.DISK_FULL,
    ]
