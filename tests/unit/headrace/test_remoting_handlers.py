import pytest

from headrace.protocol.remoting_command import create_request
from headrace.remoting import HandlerTable, not_supported


def test_unregistered_codes_have_the_default_handler() -> None:
    table = HandlerTable()
    table.register(10, lambda _, _command: None)
    assert table.handler_for(10) is not not_supported
    assert table.handler_for(11) is not_supported
    assert table.codes() == {10}


def test_code_cannot_be_registered_twice() -> None:
    table = HandlerTable()
    table.register(10, lambda _, _command: None)
    with pytest.raises(ValueError, match="10"):
        table.register(10, lambda _, _command: None)


def test_unsupported_code_is_answered_with_the_remark_that_tools_expect() -> None:
    request = create_request(200050)
    answer = not_supported(None, request)
    assert (answer.code, answer.remark, answer.opaque) == (3, " request type 200050 not supported", request.opaque)
