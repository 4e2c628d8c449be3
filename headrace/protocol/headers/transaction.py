"""Headers of transactions."""

from typing import ClassVar

from headrace.protocol.headers.command_header import I32, I64, CommandHeader
from headrace.protocol.request_code import RequestCode


class EndTransactionRequestHeader(CommandHeader, frozen=True):
    """END_TRANSACTION (37). `commit_or_rollback` is one of the TRANSACTION_… values of sysFlag; 0 means unknown."""

    CODE: ClassVar[RequestCode] = RequestCode.END_TRANSACTION

    producer_group: str
    tran_state_table_offset: I64
    commit_log_offset: I64
    commit_or_rollback: I32
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None
    bname: str | None = None


class CheckTransactionStateRequestHeader(CommandHeader, frozen=True):
    """CHECK_TRANSACTION_STATE (39): a broker asks the producer for the outcome of a half message, which is the body."""

    CODE: ClassVar[RequestCode] = RequestCode.CHECK_TRANSACTION_STATE

    tran_state_table_offset: I64
    commit_log_offset: I64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    bname: str | None = None


class ResumeCheckHalfMessageRequestHeader(CommandHeader, frozen=True):
    """RESUME_CHECK_HALF_MESSAGE (323). `msg_id` is an offset message id."""

    CODE: ClassVar[RequestCode] = RequestCode.RESUME_CHECK_HALF_MESSAGE

    msg_id: str
