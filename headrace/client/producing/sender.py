"""Sender: brings one message to a broker, with as many tries as the settings allow, in the time given (client spec 2.5, 2.6, 2.8).

    try      next queue in turn, another broker's after a failure; a queue that was given is tried once
    again    after failures of the network, an unknown broker, and the answers in `retry_codes`
    raise    at once for any other answer, and SendFailed when the tries, or the time, are used up

A try that gets no answer may have stored the message: the next one stores it again, with the same unique id. Producers, consumers (which send
messages back) and the trace dispatcher each have a Sender of their own; it belongs to an instance and keeps no task.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

from headrace.client.cluster.answer_scan import SendAnswer
from headrace.client.cluster.answers import error_of
from headrace.client.cluster.instance import ClientInstance
from headrace.client.durations import milliseconds
from headrace.client.hooks import SendContext, SendHook, call_safely
from headrace.client.namespace import unwrap
from headrace.client.producing.direct_send import DirectSends, Flight
from headrace.client.producing.fault_tolerance import FaultTolerance
from headrace.client.producing.outgoing import Outgoing, prepare_now
from headrace.client.producing.producer_settings import ProducerSettings
from headrace.client.producing.queue_choice import QueueTurn
from headrace.client.producing.send_frame import SendFrames
from headrace.client.producing.send_result import DEFAULT_REGION, STATUS_OF_CODE, SendResult
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
from headrace.remoting.deadlines import is_done_in_time

logger = logging.getLogger(__name__)

CONNECT_FAILED, TIMED_OUT, BROKER_UNKNOWN = 10001, 10002, 10003
"""RocketMQ's client codes, in SendFailed.code."""


class Sender:
    """Sends for one producer group. `group` carries the namespace."""

    def __init__(
        self, instance: ClientInstance, group: str, settings: ProducerSettings, hooks: Collection[SendHook] = ()
    ) -> None:
        self._instance = instance
        self._group = group
        self._settings = settings
        self._hooks = tuple(hooks)
        self._turns: dict[str, QueueTurn] = {}
        self._faults = FaultTolerance() if settings.latency_fault_tolerance else None
        self._loop = asyncio.get_running_loop()
        self._namespace = instance.config.namespace
        # A stamp (signature, header encoding) works on commands, not on frames.
        self._frames: SendFrames | None = None
        self.direct: DirectSends | None = None
        """The short way, if the settings leave it open."""
        if not instance.stamp.is_needed:
            self._frames = SendFrames(group, settings, unit_mode=instance.config.unit_mode)
            if not (hooks or self._faults or self._namespace or instance.config.vip_channel):
                self.direct = DirectSends(instance, settings, self._frames, self._turns)

    @property
    def topics(self) -> Collection[str]:
        """The topics that were sent to."""
        return self._turns.keys()

    async def turn(self, topic: str) -> QueueTurn:
        """The topic's queues. Raises RouteNotFound, RemotingError, NoNameServer."""
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

    async def send(
        self, message: Outgoing, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Sends to the queue given (one try), or to those of the topic in turn.

        Raises SendFailed (its cause is the last try's error), TooManyRequests if the time was used up before the first try, BrokerError for an answer
        that no other broker would better, RouteNotFound, NoNameServer, MessageInvalid.
        """
        budget_ms = milliseconds(self._settings.send_timeout) if timeout_ms is None else timeout_ms
        if queue is not None:
            self._check_queue(message, queue)
            return await self._try(message, queue, budget_ms)
        end = self._loop.time() + budget_ms / 1000
        turn = self._known_turn(message.topic)
        if turn is None:
            turn = await self._turn_in_time(message.topic, budget_ms)
            if self._loop.time() >= end:  # the loop was busy, which does not count
                end = self._loop.time() + budget_ms / 1000
        return await self._tries(message, turn, end, budget_ms)

    async def _tries(
        self,
        message: Outgoing,
        turn: QueueTurn,
        end: float,
        budget_ms: int,
        first: tuple[str, Callable[[], SendResult]] | None = None,
    ) -> SendResult:
        """Try after try. `first`: the broker of the first one, which has been made, and what gives its result or raises its error."""
        loop, settings = self._loop, self._settings
        attempt_ms = milliseconds(settings.attempt_timeout) if settings.attempt_timeout is not None else budget_ms
        brokers: list[str] = []
        not_stored: SendResult | None = None
        problem: HeadraceError | None = None
        for attempt in range(settings.retries + 1):
            try:
                if attempt == 0 and first is not None:
                    brokers.append(first[0])
                    result = first[1]()
                else:
                    remaining_ms = int((end - loop.time()) * 1000)
                    if remaining_ms <= 0:
                        break
                    chosen = self._choose(turn, brokers[-1] if brokers else None)
                    brokers.append(chosen.broker_name)
                    # The last try may take all that is left.
                    is_last = attempt == settings.retries
                    result = await self._try(
                        message, chosen, remaining_ms if is_last else min(attempt_ms, remaining_ms)
                    )
            except (RemotingError, BrokerNotFound, RemoteProtocolError) as error:
                problem = error
            except BrokerError as error:
                problem = error
                if error.code not in settings.retry_codes or not error.retryable:
                    if not_stored is not None:
                        return not_stored
                    raise
            else:
                if result.ok or not settings.retry_not_stored:
                    return result
                not_stored = result
                continue
            logger.debug("send failed topic=%s broker=%s reason=%s", message.topic, brokers[-1], problem)
        if not_stored is not None:
            return not_stored
        raise self._failure(message, problem, brokers, budget_ms)

    async def arrive(self, message: Message, flight: Flight, direct: DirectSends) -> SendResult:
        """Waits for a send that was begun the short way; it was the first try, others follow if it failed. Raises as `send` does."""
        try:
            answer = await flight.answer
        except RemotingError as error:
            problem = error
            flight.connection.forget(flight.opaque)
        except BaseException:
            flight.connection.forget(flight.opaque)
            raise
        else:
            if isinstance(answer, SendAnswer):
                return direct.result(flight, answer)
            return await self._go_on(message, flight, answer)
        if isinstance(problem, RequestTimeout) and flight.connection.silent_since(flight.began):
            flight.connection.close(
                f"no answer to a send within {direct.timeout_s:g} s, and nothing else", logging.WARNING
            )
        return await self._go_on(message, flight, problem)

    async def _go_on(self, message: Message, flight: Flight, outcome: RemotingCommand | RemotingError) -> SendResult:
        """After a first try that was not an ordinary success."""
        known = Message(message.topic, message.body, flag=message.flag, properties=message.properties)
        known.properties |= {property_names.WAIT: "true", property_names.UNIQ_KEY: flight.unique_id}
        ready = prepare_now(known, self._settings, self._namespace)

        def first_result() -> SendResult:
            if isinstance(outcome, RemotingError):
                raise outcome
            return self._result(ready, flight.queue, outcome, flight.connection.remote)

        budget_ms = milliseconds(self._settings.send_timeout)
        first = flight.queue.broker_name, first_result
        return await self._tries(ready, self._turns[message.topic], flight.began + budget_ms / 1000, budget_ms, first)

    async def send_oneway(self, message: Outgoing, queue: MessageQueue | None = None) -> None:
        """Sends once and does not wait. Raises RouteNotFound, NoNameServer, BrokerNotFound, ConnectError, MessageInvalid."""
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

    async def _turn_in_time(self, topic: str, budget_ms: int) -> QueueTurn:
        finding = self._loop.create_task(self.turn(topic))
        try:
            if await is_done_in_time(finding, budget_ms / 1000):
                return finding.result()
        finally:
            finding.cancel()
        raise RequestTimeout(f"no route of {topic} within {budget_ms} ms", timeout=budget_ms / 1000)

    def _choose(self, turn: QueueTurn, last_broker: str | None) -> MessageQueue:
        if self._faults is not None:
            return turn.next_available(self._faults, int(self._loop.time() * 1000))
        return turn.next(last_broker)

    def _check_queue(self, message: Outgoing, queue: MessageQueue) -> None:
        if queue.topic != message.topic and unwrap(self._instance.config.namespace, message.topic) != queue.topic:
            raise MessageInvalid(f"a message to {message.topic} cannot be sent to a queue of {queue.topic}")

    def _request(
        self, message: Outgoing, queue: MessageQueue, address: str, *, is_oneway: bool = False
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
        command = self._frames.request(message, queue) if self._frames is not None and not is_oneway else None
        if command is None:
            command = message.request_for(queue, self._group, self._settings, unit_mode=self._instance.config.unit_mode)
        return command, context

    async def _try(self, message: Outgoing, queue: MessageQueue, timeout_ms: int) -> SendResult:
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

    def _result(self, message: Outgoing, queue: MessageQueue, answer: RemotingCommand, address: str) -> SendResult:
        status = STATUS_OF_CODE.get(answer.code)
        if status is None:
            raise error_of(answer, address)
        ext = answer.ext
        try:
            queue_id = int(ext["queueId"])
            stored = queue
            if queue_id != queue.queue_id or self._namespace:
                stored = MessageQueue(unwrap(self._namespace, message.topic), queue.broker_name, queue_id)
            return SendResult(
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
            raise RemoteProtocolError(f"the answer of {address} to a send lacks {error}: {ext}") from error

    def _failure(
        self, message: Outgoing, problem: HeadraceError | None, brokers: list[str], budget_ms: int
    ) -> HeadraceError:
        if problem is None:
            return TooManyRequests(f"no time was left to send to {message.topic} ({budget_ms} ms)")
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
        tries = f"{len(brokers)} tries at {', '.join(dict.fromkeys(brokers))}"
        failure = SendFailed(
            f"the message {message.unique_id} to {message.topic} was not sent, {tries}: {problem}",
            code,
            len(brokers),
            brokers,
        )
        failure.__cause__ = problem
        return failure
