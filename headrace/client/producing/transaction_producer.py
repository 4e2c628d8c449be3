"""TransactionProducer: messages that consumers see only if a local transaction succeeds (client spec 2.13).

half message stored ──► local transaction ──► commit or rollback, sent to the broker
                                └─ no decision: the broker checks later, perhaps with another member of the group
"""

# ruff: noqa: ASYNC109 (see producer.py)

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, Unpack

from headrace.client.cluster.instance import ClientInstance
from headrace.client.cluster.members import TransactionCheck
from headrace.client.durations import Duration
from headrace.client.namespace import unwrap, wrap
from headrace.client.producing.producer import Producer
from headrace.client.sending.prepared_message import prepare
from headrace.client.sending.producer_settings import ProducerOptions
from headrace.client.sending.send_hooks import EndTransactionContext, call_safely
from headrace.client.sending.send_result import SendResult
from headrace.client.settings import ConfigLike
from headrace.errors import ConfigError, HeadraceError, SendFailed, StateError
from headrace.model import properties as property_names
from headrace.model import sys_flag as sys_flags
from headrace.model.message import Message, MessageExt
from headrace.model.message_id import decode_offset_message_id
from headrace.protocol.headers import EndTransactionRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, create_request

logger = logging.getLogger(__name__)

MAX_CHECKS_WAITING: Final = 2000
"""Further checks are dropped: the broker repeats them."""
THREADS: Final = 32
"""How many local transactions that are plain functions run at once."""


class TransactionState(Enum):
    """The outcome of a local transaction."""

    COMMIT = sys_flags.TRANSACTION_COMMIT
    ROLLBACK = sys_flags.TRANSACTION_ROLLBACK
    UNKNOWN = sys_flags.TRANSACTION_NOT
    """Not known yet: the broker checks later."""


# compat: the names in trace records.
_STATE_NAMES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}

Verdict: TypeAlias = TransactionState | bool | None
"""COMMIT, ROLLBACK or UNKNOWN; True, False or None mean the same."""

Execute: TypeAlias = Callable[[Message, Any], Verdict | Awaitable[Verdict]]
Check: TypeAlias = Callable[[MessageExt], Verdict | Awaitable[Verdict]]


@dataclass(slots=True, frozen=True)
class TransactionSendResult(SendResult):
    """The result of the half message and the outcome of the local transaction; `error` is the exception that it raised."""

    state: TransactionState = TransactionState.UNKNOWN
    error: BaseException | None = None


class TransactionProducer(Producer):
    """A Producer that can also send messages in transactions.

        def check(message):                     # called if the broker got no decision; any member of the group may be asked
            return is_paid(message.keys[0])

        async with TransactionProducer("payments", "127.0.0.1:9876", check=check) as producer:
            async with producer.transaction(Message("Paid", b"...", keys="order-1")):
                await pay("order-1")            # an exception rolls the message back

    `execute(message, arg)` is the local transaction of `send_in_transaction`. `check(message)` returns the outcome of one, from data that all members
    of the group can read; `check_workers` of them run at once. Both return a TransactionState, or True, False or None, and both may be coroutines.
    Plain functions run in threads of the producer.
    """

    def __init__(
        self,
        group: str,
        config: ConfigLike = None,
        *,
        check: Check,
        execute: Execute | None = None,
        check_workers: int = 1,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(group, config, **options)
        if not callable(check):
            raise ConfigError(
                "check is not callable; pass a function that returns the outcome of a transaction", "check"
            )
        if check_workers < 1:
            raise ConfigError(f"check_workers={check_workers}: expected at least 1", "check_workers")
        self._check = check
        self._execute = execute
        self._check_gate = asyncio.Semaphore(check_workers)
        # Not the loop's default threads: functions that block, on a database say, would delay the loop's name lookups. And not one pool for both:
        # local transactions that hang must not delay checks.
        self._execute_threads = ThreadPoolExecutor(THREADS, f"headrace-{group}")
        self._check_threads = ThreadPoolExecutor(check_workers, f"headrace-{group}-check")
        self._checks = 0

    async def send_in_transaction(
        self, message: Message, arg: Any = None, *, execute: Execute | None = None, timeout: Duration | None = None
    ) -> TransactionSendResult:
        """Sends a half message, runs the local transaction, and sends its outcome to the broker.

        The local transaction is `execute(message, arg)`, given here or to the producer. Its message has the `unique_id` and the property
        `__transactionId__`. If it raises, the state is UNKNOWN and the result contains the error. If the half message is not stored as safely as the broker
        is configured to, nothing is run and the message is rolled back. Raises as `send`, before anything is run. A delay of the message is ignored.
        """
        local = execute or self._execute
        if local is None:
            raise ConfigError(
                "no local transaction was passed; pass execute to the producer or to this method", "execute"
            )
        half, result = await self.send_half(message, timeout)
        state, error = TransactionState.ROLLBACK, None
        if result.ok:
            try:
                state = state_of(await _call(self._execute_threads, local, half, arg))
            except Exception as raised:
                logger.warning(
                    "local transaction failed, the broker will check message=%s", result.message_id, exc_info=raised
                )
                state, error = TransactionState.UNKNOWN, raised
        await self.end_half(half, result, state, error)
        return _transaction_result(result, state, error)

    def transaction(self, message: Message, *, timeout: Duration | None = None) -> "Transaction":
        """Returns an asynchronous context manager: leaving it commits the message, an exception rolls it back."""
        return Transaction(self, message, timeout)

    async def _end(self, instance: ClientInstance) -> None:
        try:
            await super()._end(instance)
        finally:
            # Functions that still run are not waited for.
            self._execute_threads.shutdown(wait=False)
            self._check_threads.shutdown(wait=False)

    def check_transaction(self, check: TransactionCheck) -> None:
        """Starts a task that answers a broker's check (members.ProducerMember)."""
        if self._checks >= MAX_CHECKS_WAITING:
            logger.warning("transaction check dropped, too many checks pending group=%s", self._group)
            return
        self._checks += 1
        self._instance.start_task(self._answer_check(check), "transaction check")

    async def _answer_check(self, check: TransactionCheck) -> None:
        message, header = check.message, check.header
        unique_id = message.unique_id or header.msg_id or message.offset_message_id
        message.topic = unwrap(self._namespace, message.topic)
        error: Exception | None = None
        try:
            async with self._check_gate:
                try:
                    state = state_of(await _call(self._check_threads, self._check, message))
                except Exception as raised:
                    logger.exception("transaction check failed, the broker will repeat it message=%s", unique_id)
                    state, error = TransactionState.UNKNOWN, raised
        finally:
            self._checks -= 1
        answer = EndTransactionRequestHeader(
            self._group,
            header.tran_state_table_offset,
            header.commit_log_offset,
            state.value,
            from_transaction_check=True,
            msg_id=unique_id,
            transaction_id=header.transaction_id,
            bname=header.bname,
        )
        instance = self._instance
        self._call_hooks(message, unique_id, header.transaction_id, check.connection.remote, state, is_from_check=True)
        instance.oneway_on(check.connection, _end_request(answer, error))

    async def send_half(self, message: Message, timeout: Duration | None = None) -> tuple[Message, SendResult]:
        """Sends only the half message; returns it as it was sent, and its result. `end_half` ends the transaction."""
        sender = self._begin_send()
        try:
            half = Message(message.topic, message.body, flag=message.flag, properties=message.properties)
            half.properties.pop(property_names.DELAY, None)
            half.properties[property_names.TRANSACTION_PREPARED] = "true"
            half.properties[property_names.PRODUCER_GROUP] = self._group
            with self._observe((half,)) as sending:
                (half,) = sending.messages
                ready = await prepare(half, self._settings, self._namespace)
                half.properties[property_names.UNIQ_KEY] = ready.unique_id
                result = sending.result = await sender.send(ready, None, self._timeout_ms(timeout))
            half.properties[property_names.TRANSACTION_ID] = result.transaction_id or ready.unique_id
            return half, result
        finally:
            self._end_send()

    async def end_half(
        self, half: Message, result: SendResult, state: TransactionState, error: BaseException | None = None
    ) -> None:
        """Sends the outcome to the broker. A failure is only logged: the broker will check."""
        try:
            instance = self._instance
            _, physical_offset = decode_offset_message_id(result.offset_message_id)
            address = await instance.find_broker(result.queue.broker_name, wrap(self._namespace, half.topic))
            header = EndTransactionRequestHeader(
                self._group,
                result.queue_offset,
                physical_offset,
                state.value,
                msg_id=result.message_id,
                transaction_id=result.transaction_id,
                bname=result.queue.broker_name,
            )
            self._call_hooks(half, result.message_id, result.transaction_id, address, state, is_from_check=False)
            await instance.oneway(address, _end_request(header, error))
        except (HeadraceError, ValueError) as problem:
            logger.warning("end-transaction request not sent message=%s error=%r", result.message_id, str(problem))

    def _call_hooks(
        self,
        message: Message | MessageExt,
        message_id: str,
        transaction_id: str | None,
        address: str,
        state: TransactionState,
        *,
        is_from_check: bool,
    ) -> None:
        if self._hooks:
            context = EndTransactionContext(
                self._group,
                message.topic,
                message_id,
                transaction_id,
                message.tags,
                message.properties.get(property_names.KEYS),
                address,
                _STATE_NAMES[state],
                is_from_check,
            )
            call_safely(self._hooks, "end_transaction", context)


class Transaction:
    """One message in a transaction, created by `TransactionProducer.transaction`; `result` is that of the half message.

    The end of its block commits the message; an exception or `rollback()` rolls it back; after `unknown()` the broker checks later.
    """

    def __init__(self, producer: TransactionProducer, message: Message, timeout: Duration | None) -> None:
        self._producer = producer
        self._given = message
        self._timeout = timeout
        self._half: tuple[Message, SendResult] | None = None
        self._state = TransactionState.COMMIT

    @property
    def message(self) -> Message:
        """The half message, with its `unique_id`. Raises StateError before the block is entered."""
        return self._entered()[0]

    @property
    def result(self) -> SendResult:
        """The result of the half message. Raises StateError before the block is entered."""
        return self._entered()[1]

    def rollback(self) -> None:
        """Rolls the message back at the end of the block, without an exception."""
        self._state = TransactionState.ROLLBACK

    def unknown(self) -> None:
        """Leaves the outcome open: the broker checks later."""
        self._state = TransactionState.UNKNOWN

    def _entered(self) -> tuple[Message, SendResult]:
        if self._half is None:
            raise StateError(
                "the transaction has not begun; use it as `async with producer.transaction(message):`", "new"
            )
        return self._half

    async def __aenter__(self) -> Self:
        half, result = self._half = await self._producer.send_half(self._given, self._timeout)
        if not result.ok:
            await self._producer.end_half(half, result, TransactionState.ROLLBACK, None)
            raise SendFailed(
                f"the half message {result.message_id} was not stored safely ({result.status.value}) and is rolled back",
                attempts=1,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        half, result = self._entered()
        await self._producer.end_half(half, result, TransactionState.ROLLBACK if error else self._state, error)


def state_of(verdict: Verdict) -> TransactionState:
    """Returns the outcome that a local transaction or a check stands for. Raises TypeError for any other value."""
    if isinstance(verdict, TransactionState):
        return verdict
    if verdict is None:
        return TransactionState.UNKNOWN
    if isinstance(verdict, bool):
        return TransactionState.COMMIT if verdict else TransactionState.ROLLBACK
    raise TypeError(f"a transaction returned {verdict!r}; expected a TransactionState, True, False or None")


async def _call(
    threads: ThreadPoolExecutor, function: Callable[..., Verdict | Awaitable[Verdict]], *arguments: Any
) -> Verdict:
    if inspect.iscoroutinefunction(function):
        verdict: Verdict = await function(*arguments)
        return verdict
    context = contextvars.copy_context()
    said = await asyncio.get_running_loop().run_in_executor(threads, lambda: context.run(function, *arguments))
    return await said if inspect.isawaitable(said) else said


def _end_request(header: EndTransactionRequestHeader, error: BaseException | None) -> RemotingCommand:
    command = create_request(header.CODE, header.to_ext())
    if error is not None:
        command.remark = f"the local transaction raised {type(error).__name__}: {error}"
    return command


def _transaction_result(
    result: SendResult, state: TransactionState, error: BaseException | None
) -> TransactionSendResult:
    return TransactionSendResult(
        result.status,
        result.message_id,
        result.offset_message_id,
        result.queue,
        result.queue_offset,
        result.transaction_id or result.message_id,
        result.region,
        result.trace_on,
        state,
        error,
    )
