"""END_TRANSACTION: a producer commits or rolls back a half message; RESUME_CHECK_HALF_MESSAGE: an operator requests another check.

Remoting spec 4.8, store spec 11.3. Producers send the first one one-way. The result is in the log when the handler returns, so a producer
may disconnect after its commit. A half message can be committed twice; it is then delivered twice.
"""

import time
from collections.abc import Awaitable, Callable

from broker import handler_errors
from broker.appending.appender import Appender
from broker.appending.message_copies import copy_message
from broker.delays.delay_redirect import DelayRedirect
from broker.response_codes import code_of_put
from broker.statistics.broker_stats import BrokerStats
from broker.timers.timer_redirect import Outcome, TimerRedirect
from broker.transactions.half_messages import committed_message, op_message
from headrace.model import properties, sys_flag
from headrace.model.host import Host
from headrace.model.message import MessageExt
from headrace.model.message_id import decode_offset_message_id
from headrace.model.names import TRANSACTION_HALF_TOPIC
from headrace.protocol.headers.transaction import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from headrace.protocol.record import decode_record
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.connection import Connection
from headrace.remoting.handlers import HandlerTable
from store.commit_log.message import MessageToStore, PutResult
from store.status import PutMessageStatus

Answer = RemotingCommand | Awaitable[RemotingCommand | None] | None


class EndTransactionProcessor:
    """Handles both. `by_offset(physical_offset)` is the record there, None if there is none."""

    def __init__(
        self,
        appender: Appender,
        delays: DelayRedirect,
        timers: TimerRedirect,
        by_offset: Callable[[int], bytes | None],
        store_host: Host,
        stats: BrokerStats,
    ) -> None:
        self._appender = appender
        self._delays = delays
        self._timers = timers
        self._by_offset = by_offset
        self._store_host = store_host
        self._stats = stats

    def register(self, *tables: HandlerTable) -> None:
        """Serves the requests on these ports."""
        handler_errors.register(
            tables,
            {RequestCode.END_TRANSACTION: self.end, RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume_check},
        )

    def end(self, _connection: Connection, command: RemotingCommand) -> Answer:
        """END_TRANSACTION (37). # compat: the outcome "unknown" gets no response, even if one is requested."""
        header = EndTransactionRequestHeader.from_ext(command.ext_fields)
        outcome = header.commit_or_rollback
        if outcome not in (sys_flag.TRANSACTION_COMMIT, sys_flag.TRANSACTION_ROLLBACK):
            return None
        half = self._find_half(header)
        if isinstance(half, str):
            return response_to(command, ResponseCode.SYSTEM_ERROR, half)
        if outcome == sys_flag.TRANSACTION_ROLLBACK:
            self._done(half, is_committed=False)
            return response_to(command, ResponseCode.SUCCESS)
        return self._commit(command, half)

    def _find_half(self, header: EndTransactionRequestHeader) -> MessageExt | str:
        """The half message of the request, or why there is none."""
        data = self._by_offset(header.commit_log_offset)
        if data is None:
            return f"find prepared transaction message failed: no record begins at {header.commit_log_offset}; it may have expired"
        half = decode_record(data)
        if half.topic != TRANSACTION_HALF_TOPIC:
            return f"the message at {header.commit_log_offset} is not a half message"
        group = half.properties.get(properties.PRODUCER_GROUP)
        if group != header.producer_group:
            return f"the producer group wrong: the half message is of group {group}, not of {header.producer_group}"
        if half.queue_offset != header.tran_state_table_offset:
            return f"the transaction state table offset wrong: {header.tran_state_table_offset}, expected {half.queue_offset}"
        return half

    def _commit(self, command: RemotingCommand, half: MessageExt) -> Answer:
        found = committed_message(half)
        if found is None:
            return response_to(command, ResponseCode.SYSTEM_ERROR, "the half message has no REAL_TOPIC or REAL_QID")
        message, left = found
        if self._timers.redirect(message, left) is not Outcome.WAITS:
            self._delays.redirect(message, left)
        result = self._appender.append(message)
        if result is None:
            return self._commit_later(command, message, half)
        if result.status is PutMessageStatus.PUT_OK:
            # order: the message, then the op message. After a kill in between, the producer is asked again.
            self._done(half, is_committed=True)
        passed = self._appender.pass_gate(message, result)
        return _respond(command, passed) if isinstance(passed, PutResult) else _respond_later(command, passed)

    async def _commit_later(
        self, command: RemotingCommand, message: MessageToStore, half: MessageExt
    ) -> RemotingCommand:
        result = await self._appender.put(message)
        if result.status.is_stored:
            self._done(half, is_committed=True)
        return _respond(command, result)

    def _done(self, half: MessageExt, *, is_committed: bool) -> None:
        """Appends an op message. If this fails, the producer is asked again."""
        self._stats.transaction_ended(half.properties.get(properties.REAL_TOPIC, ""), is_committed=is_committed)
        self._appender.start_put(op_message(half, self._store_host, time.time_ns() // 1_000_000))

    def resume_check(self, _connection: Connection, command: RemotingCommand) -> Answer:
        """RESUME_CHECK_HALF_MESSAGE (323): stores the message again as a half message that was never checked."""
        header = ResumeCheckHalfMessageRequestHeader.from_ext(command.ext_fields)
        try:
            _, offset = decode_offset_message_id(header.msg_id)
        except ValueError as error:
            return response_to(command, ResponseCode.SYSTEM_ERROR, f"{_NOT_PUT_BACK} {error}")
        data = self._by_offset(offset)
        if data is None:
            return response_to(command, ResponseCode.SYSTEM_ERROR, f"{_NOT_PUT_BACK} No record begins at {offset}.")
        half = decode_record(data)
        message = copy_message(half, TRANSACTION_HALF_TOPIC, 0)
        found = half.properties | {properties.TRANSACTION_CHECK_TIMES: "0"}
        message.properties = properties.encode_properties(found).encode()
        result = self._appender.append(message)
        if result is None or result.status is not PutMessageStatus.PUT_OK:
            why = "No CommitLog file is reserved yet." if result is None else str(result.status)
            return response_to(command, ResponseCode.SYSTEM_ERROR, f"{_NOT_PUT_BACK} {why}")
        return response_to(command, ResponseCode.SUCCESS)


_NOT_PUT_BACK = f"Put message back to {TRANSACTION_HALF_TOPIC} failed."


async def _respond_later(command: RemotingCommand, result: Awaitable[PutResult]) -> RemotingCommand:
    return _respond(command, await result)


def _respond(command: RemotingCommand, result: PutResult) -> RemotingCommand:
    # compat: success if it is stored, even if not as safely as configured.
    if result.status.is_stored:
        return response_to(command, ResponseCode.SUCCESS)
    return response_to(command, code_of_put(result.status), str(result.status))
