import pytest

from headrace.protocol.remoting_command import create_request
from headrace.remoting import HandlerTable, not_supported


def test_a_registered_code_has_its_handler_and_all_others_the_default() -> None:
    table = HandlerTable()
    table.register(10, lambda _, _command: None)
    assert table.handler_for(10) is not not_supported
    assert table.handler_for(11) is not_supported
    assert table.codes() == {10}


def test_a_code_is_given_once() -> None:
    table = HandlerTable()
    table.register(10, lambda _, _command: None)
    with pytest.raises(ValueError, match="10"):
        table.register(10, lambda _, _command: None)


def test_what_is_not_supported_is_said_in_the_words_that_tools_look_for() -> None:
    request = create_request(200050)
    answer = not_supported(None, request)
    assert (answer.code, answer.remark, answer.opaque) == (3, " request type 200050 not supported", request.opaque)
