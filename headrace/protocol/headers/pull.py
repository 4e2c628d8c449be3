"""Headers of pulls."""

from typing import ClassVar

from headrace.protocol.headers.command_header import I32, I64, CommandHeader
from headrace.protocol.request_code import RequestCode


class PullMessageRequestHeader(CommandHeader, frozen=True):
    """PULL_MESSAGE (11), and LITE_PULL_MESSAGE (361) of RocketMQ 5. `sys_flag` has the bits of `pull_sys_flag`."""

    CODE: ClassVar[RequestCode] = RequestCode.PULL_MESSAGE

    consumer_group: str
    topic: str
    queue_id: I32
    queue_offset: I64
    max_msg_nums: I32
    sys_flag: I32
    commit_offset: I64
    suspend_timeout_millis: I64
    sub_version: I64
    subscription: str | None = None
    expression_type: str | None = None
    bname: str | None = None


class PullMessageResponseHeader(CommandHeader, frozen=True):
    """The next offset, the suggested broker, and the bounds of the queue: present whenever the queue was read."""

    suggest_which_broker_id: I64
    next_begin_offset: I64
    min_offset: I64
    max_offset: I64
