"""Answers of brokers and name servers that are errors, as exceptions."""

from typing import Final

from headrace.errors import BrokerError, PermissionDenied
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.response_code import ResponseCode

_ACL_MARK: Final = "AclException"


def error_of(answer: RemotingCommand, address: str | None = None) -> BrokerError:
    """The error that an answer other than success stands for.

    compat: brokers of 4.9 refuse a signature, or what the account may not do, with SYSTEM_ERROR, which is worth another try elsewhere; the remark
    tells it apart. Here that is PermissionDenied, and no use to try again.
    """
    if answer.code == ResponseCode.SYSTEM_ERROR and answer.remark and _ACL_MARK in answer.remark:
        denied = PermissionDenied(answer.code, answer.remark, address)
        denied.retryable = False
        return denied
    return BrokerError.of(answer.code, answer.remark, address)


def expect_success(answer: RemotingCommand, address: str | None = None) -> RemotingCommand:
    """The answer, if it is a success. Raises BrokerError."""
    if answer.code != ResponseCode.SUCCESS:
        raise error_of(answer, address)
    return answer
