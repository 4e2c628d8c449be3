from typing import Any

import pytest

from headrace import errors


def test_remoting_errors_are_subclasses_of_builtin_errors() -> None:
    with pytest.raises(TimeoutError):
        raise errors.RequestTimeout("late", "127.0.0.1:10911", timeout=3.0)
    with pytest.raises(ConnectionError):
        raise errors.ConnectError("refused", "127.0.0.1:10911")
    with pytest.raises(OSError, match="full"):
        raise errors.TooManyRequests("full")
    with pytest.raises(ValueError, match="bad"):
        raise errors.RemoteProtocolError("bad")


def test_attributes_stay_with_the_error() -> None:
    late = errors.RequestTimeout("late", "127.0.0.1:10911", timeout=3.0)
    assert (str(late), late.address, late.timeout, late.retryable) == ("late", "127.0.0.1:10911", 3.0, True)
    failed = errors.SendFailed("given up", code=14, attempts=3, brokers=["a", "b"])
    assert (failed.code, failed.attempts, failed.brokers, failed.retryable) == (14, 3, ("a", "b"), False)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (1, errors.BrokerError, True),
        (2, errors.SystemBusy, False),
        (13, errors.MessageIllegal, False),
        (14, errors.ServiceNotAvailable, True),
        (16, errors.PermissionDenied, True),
        (17, errors.TopicNotExist, True),
        (25, errors.SubscriptionNotLatest, False),
        (215, errors.FlowControl, False),
        (9999, errors.BrokerError, False),
    ],
)
def test_broker_response_raises_the_error_of_its_code(code: int, kind: Any, retryable: bool) -> None:
    error = errors.BrokerError.of(code, "why", "broker:10911")
    assert type(error) is kind
    assert (error.code, error.remark, error.broker_address, error.retryable) == (code, "why", "broker:10911", retryable)
    assert str(code) in str(error)
    assert "why" in str(error)


def test_documented_error_tree_names_every_error() -> None:
    drawn = errors.__doc__ or ""
    declared = [name for name, item in vars(errors).items() if isinstance(item, type) and issubclass(item, Exception)]
    assert [name for name in declared if name not in drawn] == []
