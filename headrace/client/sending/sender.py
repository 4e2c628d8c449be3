"""Sender: delivers messages to brokers, with retries, within each send's timeout (client spec 2.5, 2.6, 2.8).

    message ─► prepared message ─► queue ─► request ─► answer ─► SendResult
                                     ▲                   │
                                     └─── next attempt ──┘

    queue    the next in turn, of another broker after a failure; a queue that the caller chose gets one attempt
    retry    after network failures, an unknown broker, and the answers in `retry_codes`
    raise    at once for any other answer; SendFailed when the attempts or the time are used up

An attempt without an answer may have stored the message. The next attempt then stores it again, with the same unique id. Producers, consumers
(which send messages back) and trace dispatchers each have a Sender; it belongs to an instance and starts no background task.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from headrace.client.cluster.answer_scan import SendAnswer
from headrace.client.cluster.answers import error_of
from headrace.client.cluster.instance import ClientInstance
from headrace.client.durations import milliseconds
from headrace.client.namespace import unwrap
from headrace.client.sending.fault_tolerance import FaultTolerance
from headrace.client.sending.plain_send import Attempt, PlainSends
from headrace.client.sending.prepared_message import PreparedMessage, prepare_now
from headrace.client.sending.producer_settings import ProducerSettings
from headrace.client.sending.queue_choice import QueueTurn
from headrace.client.sending.send_header import SendHeaders
from headrace.client.sending.send_hooks import SendContext, SendHook, call_safely
from headrace.client.sending.send_result import DEFAULT_REGION, STATUS_OF_CODE, SendResult, stored_result
from headrace.errors import (
    BrokerError,
    BrokerNotFound,
    ConnectError,
    HeadraceError,
    MessageInvalid,
    RemoteProtocolError,
    RemotingError,
    RequestTimeout,
    RouteNotFound,
    SendFailed,
    TooManyRequests,
)
from headrace.model import properties as property_names
from headrace.model.message import Message
from headrace.model.message_queue import MessageQueue
from headrace.protocol.remoting_command import RemotingCommand
from headrace.remoting.deadlines import wait_in_time

logger = logging.getLogger(__name__)

CONNECT_FAILED, TIMED_OUT, BROKER_UNKNOWN = 10001, 10002, 10003
"""Client error codes of RocketMQ, used in SendFailed.code."""


_Retryable: TypeAlias = RemotingError | BrokerNotFound | RemoteProtocolError | BrokerError
_RETRYABLE: Final = (RemotingError, BrokerNotFound, RemoteProtocolError, BrokerError)


class Sender:
    """Sends for one producer group. `group` includes the namespace."""

    def __init__(
        self, instance: ClientInstance, group: str, settings: ProducerSettings, hooks: Collection[SendHook] = ()
    ) -> None:
        config = instance.config
        self._instance = instance
        self._group = group
        self._settings = settings
        self._hooks = tuple(hooks)
        self._turns: dict[str, QueueTurn] = {}
        self._faults = FaultTolerance() if settings.latency_fault_tolerance else None
        self._loop = asyncio.get_running_loop()
        self._namespace = config.namespace
        is_stamped = instance.stamp.is_needed
        self._headers = SendHeaders(group, settings, unit_mode=config.unit_mode, is_stamped=is_stamped)
        self.begin: Callable[[Message], Attempt | None] = _begin_nothing
        """Sends a plain message now; `finish` waits for its result. None if the message has to be prepared, and sent with `send`."""
        if not (is_stamped or hooks or self._faults or self._namespace or config.vip_channel):
            self.begin = PlainSends(instance, settings, self._headers, self._turns).begin

    @property
    def topics(self) -> Collection[str]:
        """The topics that messages were sent to."""
        return self._turns.keys()

    async def turn(self, topic: str) -> QueueTurn:
        """Returns the topic's queues. Raises RouteNotFound, RemotingError, NoNameServer."""
        turn = self._known_turn(topic)
        if turn is not None:
            return turn
        route = self._instance.routes.cached(topic)
        if route is None or not route.publish_queues:
            settings = self._settings
            route = await self._instance.routes.find_to_publish(
                topic, settings.create_topic_template, settings.create_topic_queues
            )
        turn = self._turns.get(topic)
        if turn is None or turn.route is not route:
            turn = self._turns[topic] = QueueTurn(route, turn)
        return turn

    async def finish(self, message: Message, attempt: Attempt) -> SendResult:
        """Waits for an attempt that `begin` made, and retries if it failed. Raises as `send` does."""
        outcome: RemotingCommand | RemotingError
        try:
            answer = await attempt.answer
            if isinstance(answer, SendAnswer):
                return attempt.result(answer)
            outcome = answer
        except RemotingError as error:
            attempt.abandon(error)
            outcome = error
        except BaseException:
            attempt.abandon()
            raise
        known = Message(message.topic, message.body, flag=message.flag, properties=message.properties)
        known.properties |= {property_names.WAIT: "true", property_names.UNIQ_KEY: attempt.unique_id}
        prepared = prepare_now(known, self._settings, self._namespace)
        first: SendResult | _Retryable
        try:
            if isinstance(outcome, RemotingError):
                first = outcome
            else:
                first = self._result(prepared, attempt.queue, outcome, attempt.pipeline.connection.remote)
        except _RETRYABLE as error:
            first = error
        budget_ms = milliseconds(self._settings.send_timeout)
        end = attempt.started_s + budget_ms / 1000
        return await self._deliver(prepared, self._turns[message.topic], end, budget_ms, (attempt.queue, first))

    async def send(
        self, message: PreparedMessage, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Sends to the given queue (one attempt), or to the topic's queues in turn.

        Raises SendFailed (its cause is the last attempt's error), TooManyRequests if no time was left for an attempt, BrokerError for an answer
        that another broker would repeat, RouteNotFound, NoNameServer, MessageInvalid.
        """
        budget_ms = milliseconds(self._settings.send_timeout) if timeout_ms is None else timeout_ms
        if queue is not None:
            self._check_queue(message, queue)
            return await self._attempt(message, queue, budget_ms)
        end = self._loop.time() + budget_ms / 1000
        turn = self._known_turn(message.topic)
        if turn is None:
            turn, left_s = await self._turn_in_time(message.topic, budget_ms)
            end = self._loop.time() + left_s
        return await self._deliver(message, turn, end, budget_ms)

    async def _deliver(
        self,
        message: PreparedMessage,
        turn: QueueTurn,
        end: float,
        budget_ms: int,
        first: tuple[MessageQueue, SendResult | _Retryable] | None = None,
    ) -> SendResult:
        """Makes attempts until one succeeds, or `end` (the loop's time). `first`: the queue and the outcome of one made already."""
        loop, settings = self._loop, self._settings
        attempt_ms = milliseconds(settings.attempt_timeout) if settings.attempt_timeout is not None else budget_ms
        brokers: list[str] = []
        not_stored: SendResult | None = None
        problem: HeadraceError | None = None
        for attempt in range(settings.retries + 1):
            outcome: SendResult | _Retryable
            if attempt == 0 and first is not None:
                queue, outcome = first
                brokers.append(queue.broker_name)
            else:
                remaining_ms = int((end - loop.time()) * 1000)
                if remaining_ms <= 0:
                    break
                queue = self._choose(turn, brokers[-1] if brokers else None)
                brokers.append(queue.broker_name)
                # The last attempt may take all the time that is left.
                is_last = attempt == settings.retries
                timeout_ms = remaining_ms if is_last else min(attempt_ms, remaining_ms)
                try:
                    outcome = await self._attempt(message, queue, timeout_ms)
                except _RETRYABLE as error:
                    outcome = error
            if isinstance(outcome, SendResult):
                if outcome.ok or not settings.retry_not_stored:
                    return outcome
                not_stored = outcome
                continue
            problem = outcome
            if isinstance(outcome, BrokerError) and not (outcome.retryable and outcome.code in settings.retry_codes):
                if not_stored is not None:
                    return not_stored
                raise outcome
            logger.debug("send failed topic=%s broker=%s error=%r", message.topic, brokers[-1], str(problem))
        if not_stored is not None:
            return not_stored
        raise self._failure(message, problem, brokers, budget_ms)

    async def send_oneway(self, message: PreparedMessage, queue: MessageQueue | None = None) -> None:
        """Sends once and does not wait for an answer. Raises RouteNotFound, NoNameServer, BrokerNotFound, ConnectError, MessageInvalid."""
        if queue is not None:
            self._check_queue(message, queue)
        else:
            queue = (await self.turn(message.topic)).next()
        address = self._instance.vip(await self._instance.find_broker(queue.broker_name, message.topic))
        command, context = self._request(message, queue, address, is_oneway=True)
        await self._instance.oneway(address, command)
        if context is not None:
            call_safely(self._hooks, "after", context)

    def _known_turn(self, topic: str) -> QueueTurn | None:
        turn = self._turns.get(topic)
        if turn is not None and turn.queues and turn.route is self._instance.routes.cached(topic):
            return turn
        return None

    async def _turn_in_time(self, topic: str, budget_ms: int) -> tuple[QueueTurn, float]:
        """The queues of the topic, and how many seconds of the budget are left."""
        finding = self._loop.create_task(self.turn(topic))
        try:
            left_s = await wait_in_time(finding, budget_ms / 1000)
            if left_s is not None:
                return finding.result(), left_s
        finally:
            finding.cancel()
        raise RequestTimeout(
            f"no name server returned a route for {topic} within {budget_ms} ms", timeout=budget_ms / 1000
        )

    def _choose(self, turn: QueueTurn, last_broker: str | None) -> MessageQueue:
        if self._faults is not None:
            return turn.next_available(self._faults, int(self._loop.time() * 1000))
        return turn.next(last_broker)

    def _check_queue(self, message: PreparedMessage, queue: MessageQueue) -> None:
        if queue.topic != message.topic and unwrap(self._instance.config.namespace, message.topic) != queue.topic:
            raise MessageInvalid(f"a message to {message.topic} cannot be sent to {queue}, a queue of another topic")

    def _request(
        self, message: PreparedMessage, queue: MessageQueue, address: str, *, is_oneway: bool = False
    ) -> tuple[RemotingCommand, SendContext | None]:
        context = None
        if self._hooks:
            context = SendContext(
                self._group,
                message.topic,
                message.messages,
                message.unique_id.split(","),
                queue,
                address,
                message.kind,
                len(message.body),
                is_oneway,
            )
            for hook in self._hooks:
                hook.forbid(context)
            call_safely(self._hooks, "before", context)
        return self._headers.request(message, queue, is_oneway=is_oneway), context

    async def _attempt(self, message: PreparedMessage, queue: MessageQueue, timeout_ms: int) -> SendResult:
        start = self._loop.time()
        context: SendContext | None = None
        failed = True
        try:
            instance = self._instance
            address = instance.brokers.master(queue.broker_name)
            if address is None:
                address = await instance.find_broker(queue.broker_name, message.topic)
            address = instance.vip(address)
            command, context = self._request(message, queue, address)
            answer = await instance.request(address, command, timeout_ms)
            result = self._result(message, queue, answer, address)
            failed = False
            if context is not None:
                context.result = result
            return result
        except asyncio.CancelledError:
            failed = False
            raise
        except HeadraceError as error:
            if context is not None:
                context.error = error
            raise
        finally:
            if self._faults is not None:
                now = self._loop.time()
                self._faults.update(queue.broker_name, int((now - start) * 1000), int(now * 1000), is_failure=failed)
            if context is not None:
                call_safely(self._hooks, "after", context)

    def _result(
        self, message: PreparedMessage, queue: MessageQueue, answer: RemotingCommand, address: str
    ) -> SendResult:
        status = STATUS_OF_CODE.get(answer.code)
        if status is None:
            raise error_of(answer, address)
        ext = answer.ext
        try:
            queue_id = int(ext["queueId"])
            stored = queue
            if queue_id != queue.queue_id or self._namespace:
                stored = MessageQueue(unwrap(self._namespace, message.topic), queue.broker_name, queue_id)
            return stored_result(
                status,
                message.unique_id,
                ext["msgId"],
                stored,
                int(ext["queueOffset"]),
                ext.get("transactionId"),
                ext.get("MSG_REGION") or DEFAULT_REGION,
                ext.get("TRACE_ON") != "false",
            )
        except (KeyError, ValueError) as error:
            what = f"field {error} is missing" if isinstance(error, KeyError) else f"a field is malformed ({error})"
            raise RemoteProtocolError(f"invalid send response from {address}: {what}: {ext}") from error

    def _failure(
        self, message: PreparedMessage, problem: HeadraceError | None, brokers: list[str], budget_ms: int
    ) -> HeadraceError:
        if problem is None:
            return TooManyRequests(
                f"no attempt to send to {message.topic} was possible within {budget_ms} ms: the event loop is overloaded"
            )
        if isinstance(problem, BrokerError):
            code = problem.code
        elif isinstance(problem, RequestTimeout):
            code = TIMED_OUT
        elif isinstance(problem, ConnectError):
            code = CONNECT_FAILED
        elif isinstance(problem, (BrokerNotFound, RouteNotFound)):
            code = BROKER_UNKNOWN
        else:
            code = -1
        tries = f"{len(brokers)} attempts at {', '.join(dict.fromkeys(brokers))}"
        failure = SendFailed(
            f"the message {message.unique_id} to {message.topic} was not stored after {tries}: {problem}",
            code,
            len(brokers),
            brokers,
        )
        failure.__cause__ = problem
        return failure


def _begin_nothing(_message: Message) -> None:
    return None
