from store.status import GetMessageStatus, PutMessageStatus


def test_status_names_equal_rocketmqs_even_if_misspelt() -> None:
    assert str(PutMessageStatus.CREATE_MAPEDFILE_FAILED) == "CREATE_MAPEDFILE_FAILED"
    assert str(GetMessageStatus.OFFSET_OVERFLOW_ONE) == "OFFSET_OVERFLOW_ONE"


def test_four_statuses_leave_the_message_in_the_log() -> None:
    assert {status.name for status in PutMessageStatus if status.is_stored} == {
        "PUT_OK",
        "FLUSH_DISK_TIMEOUT",
        "FLUSH_SLAVE_TIMEOUT",
        "SLAVE_NOT_AVAILABLE",
    }
