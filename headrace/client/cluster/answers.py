"""Converts error answers of brokers and name servers to exceptions."""

from typing import Final

from headrace.errors import BrokerError, PermissionDenied
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.response_code import ResponseCode

_ACL_MARK: Final = "AclException"


def error_of(answer: RemotingCommand, address: str | None = None) -> BrokerError:
    """Returns the exception for an answer other than success.

    compat: brokers of 4.9 reject a bad signature or a missing permission with SYSTEM_ERROR, which is otherwise worth a retry; only the remark
    differs. Here it is PermissionDenied, which is not retried.
    """
    if answer.code == ResponseCode.SYSTEM_ERROR and answer.remark and _ACL_MARK in answer.remark:
        denied = PermissionDenied(answer.code, answer.remark, address)
        denied.retryable = False
        return denied
    return BrokerError.of(answer.code, answer.remark, address)


def expect_success(answer: RemotingCommand, address: str | None = None) -> RemotingCommand:
    """Returns the answer if it is a success. Raises BrokerError otherwise."""
    if answer.code != ResponseCode.SUCCESS:
        raise error_of(answer, address)
    return answer
